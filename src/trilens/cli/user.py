"""Who calls."""

import getpass


def user_name() -> str:
    """Empty where there is none: the user of a container may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
