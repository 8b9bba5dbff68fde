"""The templates that every tenant has: receipt, invoice, ID card, business card, bank slip.

Their names and versions are part of the API: a change of the rows raises VERSION.
"""

from __future__ import annotations

from portal.domain import FieldSpec, FieldType

VERSION = 1
_TEXT, _DATE, _MONEY, _ID = FieldType.TEXT, FieldType.DATE, FieldType.MONEY, FieldType.ID
_LINES = (
    FieldSpec("description"),
    FieldSpec("quantity", FieldType.NUMBER),
    FieldSpec("unit_price", _MONEY),
    FieldSpec("amount", _MONEY),
)

BUILT_IN: dict[str, tuple[FieldSpec, ...]] = {
    "receipt": (
        FieldSpec("merchant"),
        FieldSpec("date", _DATE, required=True),
        FieldSpec("time"),
        FieldSpec("receipt_number", _ID),
        FieldSpec("items", FieldType.ROWS, children=(_LINES[0], _LINES[3])),
        FieldSpec("net", _MONEY),
        FieldSpec("tax", _MONEY),
        FieldSpec("total", _MONEY, required=True, sum_of=("items.amount", "items.amount+tax", "net+tax")),
    ),
    "invoice": (
        FieldSpec("seller"),
        FieldSpec("invoice_number", _ID, required=True),
        FieldSpec("invoice_date", _DATE, required=True),
        FieldSpec("due_date", _DATE, not_before="invoice_date"),
        FieldSpec("customer_number", _ID),
        FieldSpec("order_number", _ID),
        FieldSpec("items", FieldType.ROWS, children=_LINES),
        FieldSpec("net", _MONEY, sum_of=("items.amount",)),
        FieldSpec("tax", _MONEY),
        FieldSpec("total", _MONEY, required=True, sum_of=("net+tax", "items.amount", "items.amount+tax")),
        FieldSpec("iban", FieldType.IBAN),
        FieldSpec("email", FieldType.EMAIL),
        FieldSpec("phone", FieldType.PHONE),
    ),
    "id_card": (
        FieldSpec("surname"),
        FieldSpec("given_names"),
        FieldSpec("birth_date", _DATE),
        FieldSpec("birth_place"),
        FieldSpec("nationality"),
        FieldSpec("sex"),
        FieldSpec("document_number", _ID, required=True),
        FieldSpec("expiry_date", _DATE, not_before="birth_date"),
        FieldSpec("address"),
    ),
    "business_card": (
        FieldSpec("name"),
        FieldSpec("company"),
        FieldSpec("job_title"),
        FieldSpec("phone", FieldType.PHONE),
        FieldSpec("mobile", FieldType.PHONE),
        FieldSpec("email", FieldType.EMAIL),
        FieldSpec("website", pattern=r"(?i)(?:https?://)?(?:www\.)[a-z0-9.-]+\.[a-z]{2,}(?:/\S*)?"),
        FieldSpec("address"),
    ),
    "bank_slip": (
        FieldSpec("payee"),
        FieldSpec("iban", FieldType.IBAN, required=True),
        FieldSpec("bic", _ID),
        FieldSpec("amount", _MONEY, required=True, minimum="0.01"),
        FieldSpec("payment_reference", _ID),
        FieldSpec("payer"),
        FieldSpec("date", _DATE),
    ),
}
TITLES = {
    "receipt": "Receipt",
    "invoice": "Invoice",
    "id_card": "ID card",
    "business_card": "Business card",
    "bank_slip": "Bank slip",
}
