// The tab Fields: the values of a document beside its page, to go to, to correct and to check; and all documents of the
// job as a table. Values come from /files/jobs/…/fields.json; every text is a text node.
import { counted, h, icon } from './dom.js';

const STATES = { read: 'read', checked: 'checked', rule_failed: 'rule failed' };
const NOT_FOUND = 'not found on the page';
const NO_SOURCE = 'no source found';
const LONGEST_CELL = 60;

export class Fields {
  // `show(page, path)` turns to a value, `correct(position, path, value)` sends what a person says.
  constructor(job, { show, correct }) {
    Object.assign(this, { job, show, correct, found: null, isTable: false, editing: null, problem: null, isRefused: false });
    this.element = h('div', { class: 'reading fields', id: 'field-list' });
  }

  async load() {
    const answer = await fetch(`/files/jobs/${encodeURIComponent(this.job.id)}/fields.json`);
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    this.found = await answer.json();
  }

  // What came of a correction: the value is drawn anew, or the refusal beside it.
  told({ path, position, problem }) {
    this.problem = problem ? { path, position, text: problem } : null;
    if (!problem) this.editing = null;
    this.isRefused = Boolean(problem);
  }

  documentOf(position) {
    return this.found?.documents.findLast((one) => one.first_page <= position);
  }

  // Draws the tab for the page at `position`; `line(value)` gives the number of the line that a value stands in on it.
  draw(position, line, lines) {
    this.position = position;
    this.line = line;
    this.lines = lines;
    const isMany = this.found?.documents.length > 1;
    const isWriting = this.isRefused || this.element.querySelector('.field-edit input:focus') !== null;
    this.element.replaceChildren(...(isMany ? [this.switch()] : []), ...(this.isTable && isMany ? this.table() : this.list()));
    if (isWriting) this.element.querySelector('.field-edit input')?.focus();
    this.isRefused = false;
  }

  redraw() {
    this.draw(this.position, this.line, this.lines);
  }

  switch() {
    const count = this.found.documents.length;
    const toCheck = this.found.documents.filter((one) => one.needs_check).length;
    const buttons = [[false, 'This document'], [true, `All ${count} documents`]].map(([isTable, label]) => {
      const button = h('button', { type: 'button', class: 'quiet', 'aria-pressed': `${isTable === this.isTable}` }, label);
      button.addEventListener('click', () => {
        this.isTable = isTable;
        this.redraw();
      });
      return button;
    });
    return h('div', { class: 'result-tools field-switch' }, ...buttons, h('span', { class: 'remark' }, toCheck ? `${toCheck} to check` : 'Nothing to check'));
  }

  // One document
  list() {
    const document = this.documentOf(this.position);
    if (!document?.is_read) return [h('p', { class: 'no-text' }, 'The values appear here when the page is read.')];
    const toCheck = document.values.filter(needsCheck).length;
    const head = h('p', { class: 'hint' }, toCheck ? `${toCheck} to check of ${counted(document.values.length, 'field')}.` : `${counted(document.values.length, 'field')}. Click a value to see where it stands.`);
    return [head, h('dl', { class: 'field-values' }, ...document.values.map((value) => (value.path === null ? this.rows(value) : this.entry(value))))];
  }

  rows(value) {
    const columns = this.found.fields.find((field) => field.name === value.name)?.children ?? [];
    const heads = h('tr', {}, ...columns.map((column) => h('th', { scope: 'col' }, titled(column.name))));
    const body = value.rows.map((row) => h('tr', {}, ...row.map((cell) => h('td', { class: cellClass(cell) }, this.valueButton(cell)))));
    const table = h('table', {}, h('thead', {}, heads), h('tbody', {}, ...body));
    const shown = value.rows.length ? h('div', { class: 'table-scroll', role: 'region', tabindex: '0', 'aria-label': value.name }, table) : h('span', { class: 'absent' }, NOT_FOUND);
    const edited = value.rows.flat().find((cell) => this.isEdited(cell));
    return h('div', { class: `field ${cellClass(value)}`, 'data-field': value.name }, h('dt', {}, titled(value.name)), h('dd', {}, shown, ...(edited ? [this.form(edited)] : []), ...remarks(value)));
  }

  entry(value) {
    const parts = this.isEdited(value) ? [this.form(value)] : [this.valueButton(value), this.tools(value)];
    const entry = h('div', { class: `field ${cellClass(value)}`, 'data-field': value.name, 'data-state': value.state }, h('dt', {}, titled(value.name), this.state(value)), h('dd', {}, ...parts, ...remarks(value)));
    return entry;
  }

  state(value) {
    if (value.state === 'read' && !needsCheck(value)) return '';
    const label = value.state === 'read' ? 'to check' : STATES[value.state];
    return h('span', { class: 'field-state', 'data-state': needsCheck(value) ? 'rule_failed' : value.state }, icon(needsCheck(value) ? 'flag' : 'tick'), label);
  }

  valueButton(value) {
    const at = this.line(value);
    const text = value.value === null ? NOT_FOUND : `${value.value}${value.currency ? ` ${value.currency}` : ''}`;
    const button = h('button', { type: 'button', class: value.value === null ? 'field-value absent' : 'field-value', title: value.how ?? null }, text);
    if (at >= 0) {
      button.dataset.line = at;
      this.lines[at]?.push(button);
    }
    button.addEventListener('click', (event) => {
      const isCell = value.path.includes('].');
      if (at < 0 && value.box && value.page !== this.position) {
        event.stopPropagation();
        this.show(value.page, value.path);
      } else if (!value.box || isCell) this.edit(value);
    });
    return button;
  }

  tools(value) {
    const correct = h('button', { type: 'button', class: 'quiet', title: 'Correct', 'aria-label': `Correct ${titled(value.name)}` }, icon('pen'));
    correct.addEventListener('click', () => this.edit(value));
    const check = h('button', { type: 'button', class: 'quiet', title: 'This is right', 'aria-label': `${titled(value.name)} is right` }, icon('tick'));
    check.addEventListener('click', () => this.correct(this.placeOf(value), value.path, value.value));
    return h('span', { class: 'field-tools' }, ...(value.state === 'checked' || value.value === null ? [correct] : [check, correct]));
  }

  edit(value) {
    this.editing = { path: value.path, page: value.page };
    this.problem = null;
    this.redraw();
    this.element.querySelector('.field-edit input')?.focus();
  }

  isEdited(value) {
    return this.editing?.path === value.path && this.editing.page === value.page;
  }

  form(value) {
    const input = h('input', { type: 'text', 'aria-label': `Value of ${titled(value.name)}`, maxlength: 2000 });
    input.value = this.problem ? this.draft : value.value === null ? (value.raw ?? '') : `${value.value}${value.currency ? ` ${value.currency}` : ''}`;
    const problem = this.problem?.path === value.path ? this.problem.text : '';
    const cancel = h('button', { type: 'button', class: 'quiet' }, 'Cancel');
    cancel.addEventListener('click', () => {
      this.editing = null;
      this.redraw();
    });
    const form = h('form', { class: 'field-edit' }, input, h('button', { class: 'button' }, 'Save'), cancel, h('p', { class: 'fields-problem', role: 'alert' }, problem));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.draft = input.value;
      this.correct(this.placeOf(value), value.path, input.value);
    });
    form.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') cancel.click();
    });
    return form;
  }

  // A value that was found on no page is corrected on the document's first one.
  placeOf(value) {
    return value.page ?? this.documentOf(this.position).first_page;
  }

  // All documents
  table() {
    const fields = this.found.fields.filter((field) => field.type !== 'rows');
    const head = h('tr', {}, h('th', { scope: 'col' }, 'Document'), ...fields.map((field) => h('th', { scope: 'col' }, titled(field.name))));
    const rows = this.found.documents.map((document) => this.tableRow(document, fields));
    const table = h('table', { class: 'field-table' }, h('thead', {}, head), h('tbody', {}, ...rows));
    return [h('div', { class: 'table-scroll', role: 'region', tabindex: '0', 'aria-label': 'Fields of all documents' }, table)];
  }

  tableRow(document, fields) {
    const open = h('button', { type: 'button', class: 'field-value' }, document.name);
    if (document.needs_check) open.prepend(icon('flag'), h('span', { class: 'unseen' }, 'To check: '));
    open.addEventListener('click', () => this.open(document.first_page));
    const cells = fields.map((field) => {
      const values = document.values.filter((value) => value.name === field.name);
      const worst = values.find(needsCheck) ?? values[0];
      const text = values.map((value) => value.value).filter((text) => text !== null).join('; ');
      const cell = h('button', { type: 'button', class: 'field-value' }, shortened(text) || '–');
      if (worst && needsCheck(worst)) cell.prepend(icon('flag'), h('span', { class: 'unseen' }, 'To check: '));
      cell.addEventListener('click', () => this.open(worst?.page ?? document.first_page, worst?.path));
      return h('td', { class: worst ? cellClass(worst) : '', title: worst?.messages.join('; ') || null }, cell);
    });
    return h('tr', {}, h('th', { scope: 'row' }, open), ...cells);
  }

  open(page, path = null) {
    this.isTable = false;
    this.show(page, path);
  }
}

export const needsCheck = (value) =>
  value.state === 'rule_failed' || (value.state === 'read' && value.messages.length > 0) || value.rows.some((row) => row.some(needsCheck));

const cellClass = (value) => (needsCheck(value) ? 'to-check' : value.state === 'checked' ? 'is-checked' : '');

const titled = (name) => name.replaceAll('_', ' ');

const shortened = (text) => (text.length > LONGEST_CELL ? `${text.slice(0, LONGEST_CELL)}…` : text);

const moment = (at) => (at ? `, ${new Date(at).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' })}` : '');

const remarks = (value) => {
  const lines = [...value.messages];
  if (value.value !== null && !value.box && value.state === 'read' && !lines.includes(NO_SOURCE)) lines.push(NO_SOURCE);
  if (value.original) lines.push(`read as: ${value.original.value ?? 'nothing'}`);
  if (value.checked_by) lines.push(`checked by ${value.checked_by}${moment(value.checked_at)}`);
  return lines.map((text) => h('p', { class: 'field-remark' }, text));
};
