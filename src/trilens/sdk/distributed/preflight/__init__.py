"""Before a job: is every rank's machine as it should be, and how fast do they reach each other?"""
