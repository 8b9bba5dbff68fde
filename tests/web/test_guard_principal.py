"""Gradio's functions see who called, in every kind of event; and never the session cookie."""

from __future__ import annotations

from tests.web.gradio_client import Served, event, listen, new_hash, output_of


def test_principal_is_seen_when_a_page_loads_through_the_queue(guarded: Served) -> None:
    for token, email in (("a", "alice@acme.example"), ("b", "bob@bolt.example")):
        for name in ("who", "who_past"):
            member, session_hash = guarded.client(token), new_hash()
            assert member.post("/gradio_api/queue/join", json=event(guarded, name, [], session_hash)).is_success
            assert output_of(listen(member, session_hash)) == [f"{email}, csrf of {token}, cookie None"]


def test_principal_is_seen_when_a_timer_ticks_beside_the_queue(guarded: Served) -> None:
    for token, email in (("a", "alice@acme.example"), ("b", "bob@bolt.example")):
        answer = guarded.client(token).post("/gradio_api/run/predict", json=event(guarded, "tick", [], new_hash()))
        assert answer.json()["data"] == [f"tick of {email}"]


def test_principals_do_not_mix_when_two_members_wait_in_one_queue(guarded: Served) -> None:
    waiting = [(token, guarded.client(token), new_hash()) for token in ("a", "b", "c") * 4]
    for token, member, session_hash in waiting:
        body = event(guarded, "echo", [None, token, None], session_hash)
        assert member.post("/gradio_api/queue/join", json=body).is_success
    names = {"a": "alice@acme.example", "b": "bob@bolt.example", "c": "carol@acme.example"}
    for token, member, session_hash in waiting:
        assert output_of(listen(member, session_hash))[0] == f"{names[token]} read '' {token} 0"


def test_file_is_not_served_when_gradio_made_it(guarded: Served, bare: Served) -> None:
    for served, status in ((bare, 200), (guarded, 404)):
        alice, session_hash = served.client("a"), new_hash()
        assert alice.post("/gradio_api/queue/join", json=event(served, "make", [], session_hash)).is_success
        (made,) = output_of(listen(alice, session_hash))
        assert alice.get(f"/gradio_api/file={made['path']}").status_code == status
