from __future__ import annotations

import pytest

from portal.results.language import language_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cards are back in their boxes, and the birds keep coming to the bay.", "en"),
        ("Für die ausgeführten Arbeiten berechnen wir Ihnen den Betrag bis zum 17. März.", "de"),
        ("Nous avons bien reçu votre lettre et nous vous remercions de votre fidélité.", "fr"),
        ("¿Desea recibir los avisos? He leído y acepto las normas de la biblioteca por correo.", "es"),
        ("La raccolta è terminata più tardi del solito perché non ha piovuto nel mese.", "it"),
        ("どなたでも参加できます。お気軽にお申し込みください。", "ja"),
        ("因小区供水管道检修，定于六月十八日停止供水。", "zh"),
        ("Total 27.09 EUR", None),
        ("", None),
    ],
)
def test_language_is_told_only_when_it_is_clear(text: str, expected: str | None) -> None:
    assert language_of(text) == expected
