"""Who is asking: doors that know people and programs, and the gate that all requests come through."""
