"""What an id of a run may be. By itself: the SDK loads it into every program."""

from typing import Final

RUN_ID_PATTERN: Final = r"[A-Za-z0-9_.:-]{1,64}"
RUN_ID_RULE: Final = "1 to 64 of A-Za-z0-9_.:-"  # the same, for people
