from __future__ import annotations

from portal.web.gradio_page import HeldAnswer


def _held(body: bytes, media_type: bytes = b"text/html; charset=utf-8") -> HeldAnswer:
    held = HeldAnswer()
    held.start = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", media_type)]}
    held.body = body
    return held


def test_our_head_comes_first_and_cards_for_other_sites_go_when_a_page_is_dressed() -> None:
    held = _held(
        b'<html><head>\n<meta name="viewport" content="w">\n<meta\n\tproperty="og:title"\n\tcontent="Gradio"\n/>'
        b'<meta name="twitter:creator" content="@Gradio"><script>1</script></head><body>\\u003chead></body></html>'
    )
    held.dress('<script src="/static/theme.js"></script>')
    assert held.body.startswith(b"<html><head><script nonce=")
    assert b"Gradio" not in held.body
    assert b'name="viewport"' in held.body
    assert held.body.count(b"<script nonce=") == held.body.count(b"<script") == 2


def test_an_answer_that_is_no_page_stays_as_it_is() -> None:
    held = _held(b'{"text": "<head><script>"}', b"application/json")
    held.dress("<b>ours</b>")
    assert held.body == b'{"text": "<head><script>"}'
