"""The bodies of POST /v1/ocr, named as Mistral's OCR API names them, so that its clients fit.

Field names by the public reference (https://docs.mistral.ai/api/endpoint/ocr) and its SDK, checked against
version 3.7. What cannot be done here is refused by name; what asks for nothing is accepted.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from portal.api.problems import invalid_parameter
from portal.engine.markdown import to_markdown
from portal.errors import InvalidRequest
from portal.jobs.context import DEFAULT
from portal.jobs.page_numbers import MAX_TEXT_LENGTH, check_page_numbers, parse_page_numbers
from portal.page_text import Block, Box, PageText

NOMINAL_DPI = 200
FIRST_PAGE = 0
_FOREIGN_MODEL = "mistral-ocr-"

Granularity = Literal["page", "block", "word"]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DocumentUrl(_Request):
    """A PDF or an image as a data: URL."""

    type: Literal["document_url"]
    document_url: str = Field(description="data:application/pdf;base64,… (remote URLs are refused)")
    document_name: str | None = Field(default=None, max_length=1000)


class ImageUrlObject(_Request):
    """The long form of an image's URL."""

    url: str
    detail: str | None = None


class ImageUrl(_Request):
    """An image as a data: URL, plain or as {"url": …}."""

    type: Literal["image_url"]
    image_url: str | ImageUrlObject = Field(description="data:image/png;base64,… (remote URLs are refused)")


class FileReference(_Request):
    """A file uploaded before; the portal has no such files."""

    type: Literal["file"]
    file_id: str


class AnnotationSchema(_Request):
    """A JSON Schema with its name."""

    name: str | None = None
    description: str | None = None
    # `schema` is a method of every model; `schema_definition` is what Mistral's SDK calls it in Python.
    schema_definition: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class AnnotationFormat(_Request):
    """What is asked of the document as a whole."""

    type: Literal["json_schema", "text"]
    json_schema: AnnotationSchema | None = None


class OcrRequest(_Request):
    """One document to read."""

    model: str | None = Field(
        default=None, max_length=100, description="'default', or an id or a checkpoint of /v1/models"
    )
    document: Annotated[DocumentUrl | ImageUrl | FileReference, Field(discriminator="type")]
    pages: Annotated[list[int], Field(max_length=10_000)] | Annotated[str, Field(max_length=MAX_TEXT_LENGTH)] | None = (
        Field(
            default=None,
            description="Pages, a list or a text, counted from 0 as Mistral does: [0, 2] or '0-2,5'; all when left out "
            "(POST /v1/jobs counts from 1)",
        )
    )
    include_image_base64: bool | None = Field(default=None, description="Accepted; no images are cut out of pages")
    image_limit: int | None = Field(default=None, description="Accepted; no images are cut out of pages")
    image_min_size: int | None = Field(default=None, description="Accepted; no images are cut out of pages")
    include_blocks: bool = Field(default=True, description="Give each page's blocks with their boxes")
    confidence_scores_granularity: Granularity | None = Field(default=None, description="'page' or 'block'")
    table_format: str | None = Field(default=None, description="Only null: tables stay in the page's Markdown")
    extract_header: bool | None = Field(default=None, description="Only false")
    extract_footer: bool | None = Field(default=None, description="Only false")
    bbox_annotation_format: dict[str, Any] | None = Field(default=None, description="Not offered")
    document_annotation_format: AnnotationFormat | None = Field(
        default=None, description="Fields to read, as a JSON Schema; they come in `document_annotation`"
    )
    document_annotation_prompt: str | None = Field(default=None, description="Not offered")
    id: str | None = Field(default=None, max_length=200, description="Accepted and not used")


class Dimensions(BaseModel):
    """Size of the upright page image. `dpi` is nominal: what PDF pages are rendered at."""

    dpi: int
    height: int
    width: int


class BlockConfidence(BaseModel):
    """Scores of a block's lines, 0 to 1, null where the engine gives none."""

    average_content_confidence_score: float | None
    minimum_content_confidence_score: float | None


class OcrBlock(BaseModel):
    """A paragraph or a table with its box in pixels of the page image."""

    type: Literal["text", "table"]
    top_left_x: int
    top_left_y: int
    bottom_right_x: int
    bottom_right_y: int
    content: str
    confidence_scores: BlockConfidence | None = None


class PageConfidence(BaseModel):
    """Scores of a page's lines, 0 to 1."""

    average_page_confidence_score: float
    minimum_page_confidence_score: float


class OcrPage(BaseModel):
    """One page; `index` counts from 0 in the document."""

    index: int
    markdown: str
    images: list[dict[str, Any]] = Field(default_factory=list)
    dimensions: Dimensions | None
    hyperlinks: list[str] = Field(default_factory=list)
    header: str | None = None
    footer: str | None = None
    blocks: list[OcrBlock] | None = None
    confidence_scores: PageConfidence | None = None


class FailedPage(BaseModel):
    """A page that could not be read and is missing in `pages`."""

    index: int
    code: str
    message: str
    remedy: str


class UsageInfo(BaseModel):
    """What was read."""

    pages_processed: int
    doc_size_bytes: int | None


class OcrResponse(BaseModel):
    """The text of the document. `job_id` and `failed_pages` are the portal's own."""

    pages: list[OcrPage]
    model: str
    usage_info: UsageInfo
    document_annotation: str | None = None
    job_id: str
    failed_pages: list[FailedPage]


def refuse_unsupported(order: OcrRequest) -> None:
    """Raises InvalidRequest naming the first option that this portal cannot honour."""
    asked = {
        "table_format": order.table_format is not None,
        "extract_header": bool(order.extract_header),
        "extract_footer": bool(order.extract_footer),
        "bbox_annotation_format": order.bbox_annotation_format is not None,
        "document_annotation_prompt": order.document_annotation_prompt is not None,
        "confidence_scores_granularity": order.confidence_scores_granularity == "word",
    }
    for name, is_asked in asked.items():
        if is_asked:
            raise InvalidRequest(
                f"{name}: this value is not offered.",
                code="option_not_offered",
                remedy=f"Leave '{name}' out; /docs says what each option takes.",
            )


def asked_schema(order: OcrRequest) -> dict[str, Any] | None:
    """The JSON Schema of the fields that are asked for, None where none are. Raises InvalidRequest."""
    format = order.document_annotation_format
    if format is None or format.type == "text":
        return None
    if format.json_schema is None:
        raise invalid_parameter(("body", "document_annotation_format"), "has no json_schema")
    return format.json_schema.schema_definition


def engine_name(model: str | None) -> str:
    """The engine a `model` asks for; Mistral's own model names mean the default, so that its clients fit."""
    if model is None or model.startswith(_FOREIGN_MODEL):
        return DEFAULT
    return model


def page_numbers(pages: list[int] | str | None, *, max_pages: int) -> tuple[int, ...] | None:
    """Page numbers counted from 1, of `pages` which counts from 0. Raises InvalidRequest."""
    if pages is None or pages == "":
        return None
    try:
        if isinstance(pages, str):
            return parse_page_numbers(pages, first=FIRST_PAGE, limit=max_pages)
        return check_page_numbers(pages, first=FIRST_PAGE, limit=max_pages)
    except ValueError as error:
        raise invalid_parameter(("body", "pages"), str(error)) from None


def document_url(order: OcrRequest) -> str:
    """The URL of the document. Raises InvalidRequest for a file id."""
    match order.document:
        case DocumentUrl(document_url=url):
            return url
        case ImageUrl(image_url=str(url)) | ImageUrl(image_url=ImageUrlObject(url=url)):
            return url
    raise InvalidRequest(
        "document.file_id: the portal keeps no files to refer to.",
        code="option_not_offered",
        remedy="Send the file itself: type 'document_url' with a base64 data: URL.",
    )


def page_body(text: PageText, *, index: int, order: OcrRequest) -> OcrPage:
    """A page that was read. `index` counts from 0 in its document."""
    granularity = order.confidence_scores_granularity
    blocks = [_block(text, block, with_scores=granularity == "block") for block in text.blocks]
    return OcrPage(
        index=index,
        markdown=text.markdown,
        dimensions=Dimensions(dpi=NOMINAL_DPI, height=text.height_px, width=text.width_px),
        blocks=blocks if order.include_blocks else None,
        confidence_scores=_page_confidence(text) if granularity else None,
    )


def _block(text: PageText, block: Block, *, with_scores: bool) -> OcrBlock:
    lines = [text.lines[place] for row in block.rows for cell in row for place in cell]
    left, top, right, bottom = _hull([line.box for line in lines if line.box is not None])
    scores = [line.score for line in lines if line.score is not None]
    return OcrBlock(
        type=block.kind,
        top_left_x=left,
        top_left_y=top,
        bottom_right_x=right,
        bottom_right_y=bottom,
        content=to_markdown(text.lines, (block,)),
        confidence_scores=_block_confidence(scores) if with_scores else None,
    )


def _hull(boxes: list[Box]) -> Box:
    if not boxes:
        return 0, 0, 0, 0
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _block_confidence(scores: list[float]) -> BlockConfidence:
    return BlockConfidence(
        average_content_confidence_score=sum(scores) / len(scores) if scores else None,
        minimum_content_confidence_score=min(scores, default=None),
    )


def _page_confidence(text: PageText) -> PageConfidence | None:
    scores = [line.score for line in text.lines if line.score is not None]
    if text.confidence is None or not scores:
        return None
    return PageConfidence(average_page_confidence_score=text.confidence, minimum_page_confidence_score=min(scores))
