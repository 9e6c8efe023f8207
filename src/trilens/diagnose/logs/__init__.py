"""Logs of many ranks read as one: who said what, what is the cause, and what only follows from it.

line.py        who said a line, and when: the prefixes that launchers and collectors write before it
signs.yml      what lines mean, as data; signs.py reads it
shapes.py      which lines are worth a look
tracebacks.py  Python's tracebacks and stack dumps
endings.py     how processes ended, as their launchers tell
watchdog.py    what PyTorch's watchdog says of collectives, and which rank is behind
job_facts.py   what is told of the job itself: communicators, networks, versions
reading.py     a log, line by line, to what it has of these (found.py)
people.py      which process is which rank, on which host
clocks.py      by which clock
scene.py       all of that together
candidates.py  what each process tells as the cause of its end
absence.py     which rank is behind, or left, where none tells
cause.py       all of it put in one order
telling.py     the cause in words, to a verdict (log_verdict.py)
"""
