"""The curl lines of the documentation, by route. They run as printed once KEY (and JOB, KEY_ID) are set.

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
    "post /v1/jobs/{job_id}/cancel": f'curl -sS -X POST "{{base}}/v1/jobs/$JOB/cancel" {_AUTH}',
    "post /v1/jobs/{job_id}/retry": f"""curl -sS "{{base}}/v1/jobs/$JOB/retry?wait=30" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"pages": [1]}}'""",
    "delete /v1/jobs/{job_id}": f'curl -sS -X DELETE "{{base}}/v1/jobs/$JOB" {_AUTH}',
    "post /v1/ocr": f"""{{ printf '{{"model": "default", "document": {{"type": "document_url", "document_url": "'
  printf 'data:application/pdf;base64,'; base64 < scan.pdf | tr -d '\\n'
  printf '"}}}}'; }} | curl -sS "{{base}}/v1/ocr" {_AUTH} \\
  -H "Content-Type: application/json" --data-binary @-""",
    "get /v1/templates": f'curl -sS "{{base}}/v1/templates" {_AUTH}',
    "get /v1/templates/{name}": f'curl -sS "{{base}}/v1/templates/invoice" {_AUTH}',
    "post /v1/templates": f"""curl -sS "{{base}}/v1/templates" {_AUTH} -H "Content-Type: application/json" \\
  -d '{{"name": "delivery notes", "fields": [{{"name": "delivery date", "type": "date", "required": true}}]}}'""",
    "delete /v1/templates/{name}": f'curl -sS -X DELETE "{{base}}/v1/templates/delivery%20notes" {_AUTH}',
    "get /v1/models": f'curl -sS "{{base}}/v1/models" {_AUTH}',
    "get /v1/me": f'curl -sS "{{base}}/v1/me" {_AUTH}',
    "get /v1/keys": f'curl -sS "{{base}}/v1/keys" {_AUTH}',
    "post /v1/keys": f"""curl -sS "{{base}}/v1/keys" {_AUTH} -H "Content-Type: application/json" \\
  -d '{{"name": "nightly import", "scopes": ["ocr", "read"]}}'""",
    "post /v1/keys/{key_id}/rotate": f"""curl -sS "{{base}}/v1/keys/$KEY_ID/rotate" {_AUTH} \\
  -H "Content-Type: application/json" -d '{{"overlap": "1d"}}'""",
    "delete /v1/keys/{key_id}": f'curl -sS -X DELETE "{{base}}/v1/keys/$KEY_ID" {_AUTH}',
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


def with_base(text: str, base_url: str) -> str:
    """An example for the portal at `base_url`."""
    return text.replace("{base}", base_url)
