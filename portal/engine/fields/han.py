"""Chinese as documents write it: labels in both scripts, and days in Chinese numerals. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# The letters of the labels that differ between the scripts, each with the form that labels have it in.
_SIMPLIFIED: Final = (
    "开发单据价费购买卖销时间订货达缴还迟应实总额税计净优减满务会员邮装现储码号编凭账条户采参预报纳识别统终权银柜页"
    "门铺机导营联电话线询传网称业头国证护驾签关详细职结币项说规劳产数复动边无给让记贯运驶热写帐类宝种"
)
_TRADITIONAL: Final = (
    "開發單據價費購買賣銷時間訂貨達繳還遲應實總額稅計淨優減滿務會員郵裝現儲碼號編憑帳條戶採參預報納識別統終權銀櫃頁"
    "門鋪機導營聯電話線詢傳網稱業頭國證護駕簽關詳細職結幣項說規勞產數複動邊無給讓記貫運駛熱寫帳類寶種"
)
_TO_TRADITIONAL: Final = str.maketrans(dict(zip(_SIMPLIFIED, _TRADITIONAL, strict=True)))

_DIGITS: Final = "〇一二三四五六七八九"
_NUMERALS: Final = str.maketrans("○零", "〇〇")
_DAY = re.compile(
    r"([〇○零一二三四五六七八九]{4})\s?年\s?([一二三四五六七八九十]{1,2})\s?月\s?([一二三四五六七八九十]{1,3})\s?日"
)


def scripts(label: str) -> Iterator[str]:
    """The label, which is in simplified letters, and its traditional forms where it has any."""
    forms = {label: None, label.translate(_TO_TRADITIONAL): None}
    yield from dict.fromkeys((*forms, *(form.replace("帳", "賬") for form in forms)))


def numeral_days(text: str) -> Iterator[tuple[re.Match[str], int, int, int]]:
    """Days like 二〇二四年三月五日: the match with year, month and day."""
    for match in _DAY.finditer(text):
        written_year = match[1].translate(_NUMERALS)
        year = int("".join(str(_DIGITS.index(digit)) for digit in written_year))
        yield match, year, _counted(match[2]), _counted(match[3])


def _counted(numeral: str) -> int:
    """二十一 → 21, 十 → 10, 三 → 3; 0 for what is no number."""
    tens, ten, ones = numeral.partition("十")
    if not ten:
        return _DIGITS.find(numeral) if len(numeral) == 1 else 0
    is_number = len(tens) <= 1 and len(ones) <= 1 and "十" not in ones
    return 10 * (_DIGITS.find(tens) if tens else 1) + (_DIGITS.find(ones) if ones else 0) if is_number else 0
