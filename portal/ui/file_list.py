"""The input half of the Workspace as HTML: the place for files, the gallery of samples, and what glues them to events.

The list itself lives in the browser (static/input.js): it uploads each file as it comes and hands the uploads over
when the form is run. File names are shown there with textContent only.
"""

from __future__ import annotations

import json

from markupsafe import Markup

from portal.settings import IntakeSettings
from portal.ui import markup, words
from portal.ui.samples import SAMPLES, Sample

# The arguments are the form's values in the order of the components; gr.File only carries what the list uploaded.
RUN_JS = """async (files, names, task, fields, language, pages, fresh, engine, mode) => {
  portal.busy('run', true);
  portal.choices.keep({ task, fields, language });
  const given = await portal.input.uploaded();
  const listed = JSON.stringify(given.map((file) => file.orig_name));
  return [given, listed, task, fields, language, pages, fresh, engine, mode];
}"""
PRICE_JS = """(files, names, ...choices) => {
  const given = portal.input.ready();
  return [given, JSON.stringify(given.map((file) => file.orig_name)), ...choices];
}"""
REPRICE_JS = "() => { portal.input.reprice(); return []; }"
REPRICE_WHEN_LEFT_JS = "() => { portal.input.repriceWhenLeft('fields'); return []; }"
SAMPLE_JS = "() => { portal.busy('samples', true); return []; }"
ATTACH_JS = """(job) => {
  portal.busy('run', false);
  portal.busy('samples', false);
  if (job) portal.input.clear();
  portal.attach(job);
  return [];
}"""
RECALL_JS = "(member, task, fields, language) => portal.choices.recall(member, { task, fields, language })"
DROP_JS = "portal.input.mount(element, () => trigger('submit', {}));"


def drop_zone(limits: IntakeSettings) -> Markup:
    """Where files are dropped, chosen or photographed, and the list of those that were."""
    said = words.INPUT
    return Markup(
        '<section class="drop" aria-labelledby="drop-title" data-max-bytes="{}" data-max-files="{}" data-words="{}">'
        '<h2 id="drop-title" class="off-screen">{}</h2><ul class="files" aria-label="{}"></ul>'
        '<div class="drop-target"><span class="drop-icon" aria-hidden="true"></span><p><b>{}</b> <span>{}</span></p>'
        '<div class="drop-actions"><label class="button">{}<input type="file" multiple></label>'
        '<label class="button camera">{}<input type="file" accept="image/*" capture="environment" data-camera></label>'
        '</div></div><p class="off-screen" role="status"></p></section><p class="hint">{}</p>'
    ).format(
        limits.max_file_bytes,
        limits.max_job_files,
        json.dumps(said | {"byte_limit": words.byte_count(limits.max_file_bytes)}),
        said["list"],
        said["list"],
        said["empty"],
        said["empty_hint"],
        said["choose"],
        said["camera"],
        _limits(limits),
    )


def gallery() -> Markup:
    """The samples with their small pictures; a click reads one."""
    return Markup(
        '<section class="samples" aria-labelledby="samples-title"><h2 id="samples-title">Try a sample '
        "<small>one click, costs nothing</small></h2><ul>{}</ul></section>"
    ).format(markup.joined(_sample(sample) for sample in SAMPLES))


def _sample(sample: Sample) -> Markup:
    return Markup(
        '<li><button type="button" class="sample" data-action="sample" data-target="{0}">'
        '<img src="/static/samples/{0}.webp" alt="" width="200" height="280" loading="lazy">'
        "<b>{1}</b><small>{2}</small></button></li>"
    ).format(sample.name, sample.title, sample.language_name)


def _limits(limits: IntakeSettings) -> str:
    return (
        f"PDF, JPEG, PNG, TIFF, HEIC, WebP and more; up to {words.byte_count(limits.max_file_bytes)} and "
        f"{words.counted(limits.max_document_pages, 'page')} a file, {limits.max_job_files} files a run."
    )
