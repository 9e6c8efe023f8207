"""Go's Sprintf, Sprint and Sprintln, over the values that templates have."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.alert.templates.lexer import quoted
from trilens.alert.templates.values import AlertData, Sample, digits_of, shown, type_name, with_exponent

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIRECTIVE: Final = re.compile(
    r"%([-+# 0]*)(?:\[(\d+)\])?(\*|\d+)?(?:\.(\*|\d+)?)?(?:\[(\d+)\])?(.)?", re.DOTALL
)
_LONGEST: Final = 1_000_000  # Go's limit of a width


class _Style(NamedTuple):
    flags: str = ""
    width: int = 0
    precision: int | None = None

    def padded(self, text: str, *, zeros: bool = False) -> str:
        if "-" in self.flags:
            return text.ljust(self.width)
        if zeros and "0" in self.flags:
            sign = text[:1] if text[:1] in ("+", "-", " ") else ""
            return sign + text[len(sign) :].rjust(self.width - len(sign), "0")
        return text.rjust(self.width)

    def signed(self, value: float) -> str:
        """What stands before a number that is not negative."""
        if value < 0 or (value == 0 and math.copysign(1, value) < 0):
            return "-"
        return "+" if "+" in self.flags else " " if " " in self.flags else ""


def sprint(args: Sequence[Any]) -> str:
    """A space between two that are both no strings."""
    out = ""
    for place, arg in enumerate(args):
        if place and not isinstance(arg, str) and not isinstance(args[place - 1], str):
            out += " "
        out += _plain(arg)
    return out


def sprintln(args: Sequence[Any]) -> str:
    return " ".join(map(_plain, args)) + "\n"


def _plain(value: object) -> str:
    return "<nil>" if value is None else shown(value)


def sprintf(template: str, args: Sequence[Any]) -> str:
    out: list[str] = []
    at, place, reordered = 0, 0, False
    for found in _DIRECTIVE.finditer(template):
        if found.start() < at:
            continue
        out.append(template[at : found.start()])
        at = found.end()
        flags, first, width, precision, second, verb = found.groups()
        if verb is None:
            out.append("%!(NOVERB)")
            continue
        if verb == "%":
            out.append("%")
            continue
        if index := first or second:
            place, reordered = int(index) - 1, True
            if not 0 <= place < len(args):
                out.append(f"%!{verb}(BADINDEX)")
                continue
        numbers: list[int | None] = []
        for text in (width, precision):
            if text == "*":
                given = args[place] if place < len(args) else None
                place += 1
                if type(given) is not int or abs(given) > _LONGEST:
                    out.append("%!(BADWIDTH)" if text is width else "%!(BADPREC)")
                    given = None
                numbers.append(given)
            else:
                numbers.append(int(text) if text else None)
        if numbers[0] is not None and numbers[0] < 0:
            flags, numbers[0] = flags + "-", -numbers[0]
        if precision is None and "." in found[0][1:-1]:
            numbers[1] = 0
        if place >= len(args):
            out.append(f"%!{verb}(MISSING)")
            continue
        style = _Style(flags, min(numbers[0] or 0, _LONGEST), _within(numbers[1]))
        out.append(_directive(verb, args[place], style))
        place += 1
    out.append(template[at:])
    if place < len(args) and not reordered:
        extra = ", ".join(
            "<nil>" if arg is None else f"{type_name(arg)}={_plain(arg)}" for arg in args[place:]
        )
        out.append(f"%!(EXTRA {extra})")
    return "".join(out)


def _within(precision: int | None) -> int | None:
    return None if precision is None or precision < 0 else min(precision, 1000)


def _directive(verb: str, value: Any, style: _Style) -> str:
    if verb == "T":
        return style.padded("<nil>" if value is None else type_name(value))
    match value:
        case None:
            return style.padded("<nil>") if verb == "v" else f"%!{verb}(<nil>)"
        case bool():
            return style.padded(shown(value)) if verb in "tv" else _bad(verb, value, style)
        case int():
            return _integer(verb, value, style)
        case float():
            return _float(verb, value, style)
        case str():
            return _string(verb, value, style)
        case dict():
            parts = (
                f"{_directive(verb, key, style)}:{_directive(verb, one, style)}"
                for key, one in sorted(value.items())
            )
            return f"map[{' '.join(parts)}]"
        case list():
            return f"[{' '.join(_directive(verb, one, style) for one in value)}]"
        case Sample() | AlertData():
            parts = (_directive(verb, value.field(name), style) for name in value.FIELDS)
            return f"{{{' '.join(parts)}}}"
    return _string(verb, str(value), style)


def _bad(verb: str, value: Any, style: _Style) -> str:
    return f"%!{verb}({type_name(value)}={_directive('v', value, style)})"


def _integer(verb: str, value: int, style: _Style) -> str:
    if verb in "vdboOxX":
        base = {"b": "b", "o": "o", "O": "o", "x": "x", "X": "X"}.get(verb, "d")
        digits = format(abs(value), base)
        if style.precision is not None:
            digits = digits.rjust(style.precision, "0")
        prefix = "0o" if verb == "O" else {"x": "0x", "X": "0X", "o": "0", "b": "0b"}.get(verb, "")
        text = style.signed(value) + (prefix if "#" in style.flags or verb == "O" else "") + digits
        return style.padded(text, zeros=style.precision is None)
    if verb == "c":
        return style.padded(_character(value))
    if verb == "q":
        char = _character(value)
        inside = {"'": "\\'", '"': '"'}.get(char) or quoted(char)[1:-1]
        return style.padded(f"'{inside}'")
    if verb == "U":
        return style.padded(f"U+{value:04X}" + (f" '{_character(value)}'" if "#" in style.flags else ""))
    return _bad(verb, value, style)


def _character(code: int) -> str:
    return chr(code) if 0 <= code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else "\ufffd"


def _float(verb: str, value: float, style: _Style) -> str:
    if verb not in "vgGeEfF":
        return _bad(verb, value, style)
    if math.isnan(value) or math.isinf(value):
        sign = style.signed(value) if math.isinf(value) or "+" in style.flags else ""
        text = "NaN" if math.isnan(value) else "Inf"
        return style.padded((sign or ("+" if math.isinf(value) else "")) + text)
    if verb == "v":
        style = style._replace(flags=style.flags.replace("+", ""))  # which asks for names of fields there
    text = style.signed(value) + _digits(verb, abs(value), style)
    return style.padded(text, zeros=True)


def _digits(verb: str, value: float, style: _Style) -> str:
    precision = style.precision
    if verb in "fF":
        return f"{value:.{6 if precision is None else precision}f}"
    if verb in "eE":
        return f"{value:.{6 if precision is None else precision}{verb}}"
    if precision is None:
        text = shown(value)
    elif "#" in style.flags:
        text = f"{value:#.{precision or 1}g}"
    else:
        text = _significant(value, precision or 1)
    return text.upper() if verb == "G" else text


def _significant(value: float, precision: int) -> str:
    """Python's %g decides by the precision asked for; Go by the digits there are, when these are fewer."""
    text = f"{value:.{precision}g}"
    if value == 0 or "e" not in text:
        return text
    digits, exponent = digits_of(float(text))
    return with_exponent(digits, exponent)


def _string(verb: str, value: str, style: _Style) -> str:
    if verb in "vs":
        if "#" in style.flags and verb == "v":
            return style.padded(quoted(value))
        return style.padded(value if style.precision is None else value[: style.precision], zeros=True)
    if verb == "q":
        return style.padded(quoted(value if style.precision is None else value[: style.precision]))
    if verb in "xX":
        encoded = value.encode()
        text = encoded.hex(" ") if " " in style.flags else encoded.hex()
        return style.padded(text.upper() if verb == "X" else text)
    return _bad(verb, value, style)
