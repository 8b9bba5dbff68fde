"""The curl lines of the documentation, by route. They run as printed once KEY (and JOB, KEY_ID, TENANT …) are set.

`{base}` becomes the portal's own address. A test extracts each from /docs and runs it against a live portal.
"""

from __future__ import annotations

from collections.abc import Mapping

_AUTH = '-H "Authorization: Bearer $KEY"'

CURL: Mapping[str, str] = {
    "post /v1/jobs": f"""curl -sS "{{base}}/v1/jobs?wait=30" {_AUTH} \\
  -F "files=@scan.pdf" -F "files=@scan.png" -F 'options={{"pages": "1"}}'""",
    "get /v1/jobs": f'curl -sS "{{base}}/v1/jobs?limit=20" {_AUTH}',
    "get /v1/jobs/{job_id}": f'curl -sS "{{base}}/v1/jobs/$JOB?wait=30" {_AUTH}',
    "get /v1/jobs/{job_id}/result": f'curl -sS "{{base}}/v1/jobs/$JOB/result?format=markdown" {_AUTH}',
    "get /v1/jobs/{job_id}/pages/{position}/image": (
        f'curl -sS "{{base}}/v1/jobs/$JOB/pages/1/image" {_AUTH} -o page-1.jpg'
    ),
    "get /v1/jobs/{job_id}/fields": f'curl -sS "{{base}}/v1/jobs/$JOB/fields" {_AUTH}',
    "patch /v1/jobs/{job_id}/fields": f"""curl -sS -X PATCH "{{base}}/v1/jobs/$JOB/fields" {_AUTH} \\
  -H "Content-Type: application/json" \\
  -d '{{"corrections": [{{"page": 1, "path": "total", "value": "19.00"}}]}}'""",
    "post /v1/jobs/{job_id}/cancel": f'curl -sS -X POST "{{base}}/v1/jobs/$JOB/cancel" {_AUTH}',
    "post /v1/jobs/{job_id}/retry": f"""curl -sS "{{base}}/v1/jobs/$JOB/retry?wait=30" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"pages": [1]}}'""",
    "delete /v1/jobs/{job_id}": f'curl -sS -X DELETE "{{base}}/v1/jobs/$JOB" {_AUTH}',
    "get /v1/deletions": f'curl -sS "{{base}}/v1/deletions" {_AUTH}',
    "post /v1/ocr": f"""{{ printf '{{"model": "default", "document": {{"type": "document_url", "document_url": "'
  printf 'data:application/pdf;base64,'; base64 < scan.pdf | tr -d '\\n'
  printf '"}}}}'; }} | curl -sS "{{base}}/v1/ocr" {_AUTH} \\
  -H "Content-Type: application/json" --data-binary @-""",
    "get /v1/templates": f'curl -sS "{{base}}/v1/templates" {_AUTH}',
    "get /v1/templates/{name}": f'curl -sS "{{base}}/v1/templates/invoice" {_AUTH}',
    "post /v1/templates": f"""curl -sS "{{base}}/v1/templates" {_AUTH} -H "Content-Type: application/json" \\
  -d '{{"name": "delivery notes", "fields": [{{"name": "delivery date", "type": "date", "required": true}}]}}'""",
    "delete /v1/templates/{name}": f'curl -sS -X DELETE "{{base}}/v1/templates/delivery%20notes" {_AUTH}',
    "post /v1/chat/completions": f"""{{ printf '{{"model": "default", "messages": [{{"role": "user", "content": ['
  printf '{{"type": "image_url", "image_url": {{"url": "data:image/png;base64,'; base64 < scan.png | tr -d '\\n'
  printf '"}}}}]}}]}}'; }} | curl -sS "{{base}}/v1/chat/completions" {_AUTH} \\
  -H "Content-Type: application/json" --data-binary @-""",
    "get /v1/models": f'curl -sS "{{base}}/v1/models" {_AUTH}',
    "get /v1/usage": f'curl -sS "{{base}}/v1/usage" {_AUTH}',
    "get /v1/usage.csv": f'curl -sS "{{base}}/v1/usage.csv" {_AUTH} -o usage.csv',
    "post /v1/price": f"""curl -sS "{{base}}/v1/price" {_AUTH} \\
  -F "files=@scan.pdf" -F 'options={{"pages": "1"}}'""",
    "get /v1/me": f'curl -sS "{{base}}/v1/me" {_AUTH}',
    "get /v1/keys": f'curl -sS "{{base}}/v1/keys" {_AUTH}',
    "post /v1/keys": f"""curl -sS "{{base}}/v1/keys" {_AUTH} -H "Content-Type: application/json" \\
  -d '{{"name": "nightly import", "scopes": ["ocr", "read"]}}'""",
    "post /v1/keys/{key_id}/rotate": f"""curl -sS "{{base}}/v1/keys/$KEY_ID/rotate" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"overlap": "1d"}}'""",
    "delete /v1/keys/{key_id}": f'curl -sS -X DELETE "{{base}}/v1/keys/$KEY_ID" {_AUTH}',
    "get /v1/admin/tenants": f'curl -sS "{{base}}/v1/admin/tenants" {_AUTH}',
    "post /v1/admin/tenants": f"""curl -sS "{{base}}/v1/admin/tenants" {_AUTH} -H "Content-Type: application/json" \\
  -d '{{"name": "acme", "email": "you@acme.example"}}'""",
    "get /v1/admin/tenants/{tenant_id}": f'curl -sS "{{base}}/v1/admin/tenants/$TENANT" {_AUTH}',
    "put /v1/admin/tenants/{tenant_id}/state": f"""curl -sS -X PUT "{{base}}/v1/admin/tenants/$TENANT/state" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"state": "no_new_jobs", "reason": "the invoice is not paid"}}'""",
    "post /v1/admin/tenants/{tenant_id}/delete": f"""curl -sS "{{base}}/v1/admin/tenants/$TENANT/delete" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"name": "acme"}}'""",
    "put /v1/admin/tenants/{tenant_id}/quota": f"""curl -sS -X PUT "{{base}}/v1/admin/tenants/$TENANT/quota" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"limits": {{"pages_per_day": 500}}, "dry_run": true}}'""",
    "post /v1/admin/tenants/{tenant_id}/quota/{change_id}/undo": (
        f'curl -sS -X POST "{{base}}/v1/admin/tenants/$TENANT/quota/$CHANGE/undo" {_AUTH}'
    ),
    "get /v1/admin/registration": f'curl -sS "{{base}}/v1/admin/registration" {_AUTH}',
    "put /v1/admin/registration": f"""curl -sS -X PUT "{{base}}/v1/admin/registration" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"mode": "invite"}}'""",
    "get /v1/admin/plans": f'curl -sS "{{base}}/v1/admin/plans" {_AUTH}',
    "post /v1/admin/plans": f"""curl -sS "{{base}}/v1/admin/plans" {_AUTH} -H "Content-Type: application/json" \\
  -d '{{"name": "team", "limits": {{"pages_per_day": 1000}}}}'""",
    "patch /v1/admin/plans/{name}": f"""curl -sS -X PATCH "{{base}}/v1/admin/plans/team" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"limits": {{"weight": 2}}}}'""",
    "get /v1/admin/quota-requests": f'curl -sS "{{base}}/v1/admin/quota-requests?open=true" {_AUTH}',
    "post /v1/admin/quota-requests/{request_id}/grant": (
        f"""curl -sS "{{base}}/v1/admin/quota-requests/$REQUEST/grant" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"answer": "until the archive is read"}}'"""
    ),
    "post /v1/admin/quota-requests/{request_id}/decline": (
        f"""curl -sS "{{base}}/v1/admin/quota-requests/$REQUEST/decline" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"answer": "not this month"}}'"""
    ),
    "post /v1/admin/dry-run": f"""curl -sS "{{base}}/v1/admin/dry-run" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"limits": {{"pages_per_day": 100}}}}'""",
    "get /v1/admin/fleet": f'curl -sS "{{base}}/v1/admin/fleet" {_AUTH}',
    "post /v1/admin/fleet/drain": f"""curl -sS "{{base}}/v1/admin/fleet/drain" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"instance": 1}}'""",
    "post /v1/admin/fleet/restart": f"""curl -sS "{{base}}/v1/admin/fleet/restart" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{}}'""",
    "get /v1/admin/audit": f'curl -sS "{{base}}/v1/admin/audit?action=limits.changed" {_AUTH}',
    "get /v1/admin/audit.csv": f'curl -sS "{{base}}/v1/admin/audit.csv" {_AUTH} -o audit.csv',
    "get /v1/members": f'curl -sS "{{base}}/v1/members" {_AUTH}',
    "patch /v1/members/{member_id}": f"""curl -sS -X PATCH "{{base}}/v1/members/$MEMBER_ID" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"role": "owner"}}'""",
    "delete /v1/members/{member_id}": f'curl -sS -X DELETE "{{base}}/v1/members/$MEMBER_ID" {_AUTH}',
    "get /v1/invites": f'curl -sS "{{base}}/v1/invites" {_AUTH}',
    "post /v1/invites": f"""curl -sS "{{base}}/v1/invites" {_AUTH} -H "Content-Type: application/json" \\
  -d '{{"role": "member", "days": 7, "note": "Bob"}}'""",
    "delete /v1/invites/{invite_id}": f'curl -sS -X DELETE "{{base}}/v1/invites/$INVITE_ID" {_AUTH}',
    "get /livez": 'curl -sS "{base}/livez"',
    "get /readyz": 'curl -sS "{base}/readyz"',
}

MISTRAL_PYTHON = """import base64
from mistralai.client import Mistral

client = Mistral(api_key=KEY, server_url="{base}")
document = base64.b64encode(open("scan.pdf", "rb").read()).decode()
answer = client.ocr.process(
    model="default",
    document={"type": "document_url", "document_url": "data:application/pdf;base64," + document},
)
print(answer.pages[0].markdown)"""

OPENAI_PYTHON = """import base64
from openai import OpenAI

client = OpenAI(api_key=KEY, base_url="{base}/v1")
image = base64.b64encode(open("scan.png", "rb").read()).decode()
answer = client.chat.completions.create(
    model="default",
    messages=[
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + image}}],
        }
    ],
)
print(answer.choices[0].message.content)"""


def with_base(text: str, base_url: str) -> str:
    """An example for the portal at `base_url`."""
    return text.replace("{base}", base_url)
