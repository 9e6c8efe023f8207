"""How a function of a template refuses its arguments."""


class CallError(Exception):
    """What is wrong with them; where it was called is added by who called."""
