// The form of the task Fields: a template, its rows to edit, the JSON behind a tab. The value is JSON text that
// portal/ui/field_form.py reads. Everything is drawn with text nodes.
import { canonical, filled, listed, listing, parsed, problemOf } from './fields_rows.js';
import { h } from './viewer/dom.js';

const LABELS = { rows: 'Rows', json: 'JSON' };
const TYPES = {
  text: 'Text', date: 'Date', money: 'Amount', number: 'Number', id: 'Number or code', iban: 'IBAN',
  email: 'E-mail', phone: 'Phone', rows: 'Line items',
};
const DETAILS = {
  description: ['Where and how it is written', 'like: printed under the logo'],
  allowed: ['Allowed values', 'like: EUR, USD'],
  pattern: ['Pattern', 'like: INV-\\d{6}'],
  minimum: ['At least', 'like: 0'],
  maximum: ['At most', 'like: 10000'],
  not_before: ['Not before the date', 'like: invoice_date'],
};

// What is asked for. `rows` null: as the template has them; `draft` is JSON that is not valid yet, as it is written.
// The summary, the form's value and what is saved are made of these alone.
const NOTHING = { template: null, rows: null, schema: null, draft: null };

export const mount = (element, props, watch, send) => {
  const form = new FieldsForm(element, props, send);
  watch('described', () => form.offer(props.described));
  watch('value', () => form.take(props.value));
  form.offer(props.described);
  form.take(props.value);
};

class FieldsForm {
  constructor(host, props, send) {
    Object.assign(this, { host, props, send, turn: 0, tab: 'rows' }, NOTHING);
    this.choice = h('select', { id: 'template', 'aria-label': 'Template' });
    this.choice.addEventListener('change', () => this.choose(this.choice.value));
    this.summary = h('p', { class: 'hint', id: 'fields-summary' });
    this.editor = h('div', { class: 'fields-editor' });
    this.told = h('p', { class: 'fields-told', role: 'status' });
    this.details = h('details', {}, h('summary', {}, 'Edit fields'), this.editor, this.saving());
    const head = h('label', { class: 'fields-choice' }, h('span', {}, 'Template'), this.choice);
    const root = h('fieldset', { class: 'fields-form' }, h('legend', {}, 'Fields to read'), head, this.summary, this.details, this.told);
    this.host.replaceChildren(root);
  }

  saving() {
    this.name = h('input', { type: 'text', maxlength: 60, placeholder: 'Name it, to save it', 'aria-label': 'Name of the template', id: 'template-name' });
    const save = h('button', { type: 'button', class: 'button', id: 'save-template' }, 'Save as template');
    save.addEventListener('click', () => {
      this.sent = this.written();
      this.turn += 1;
      this.send({ action: 'save', target: JSON.stringify({ name: this.name.value, fields: this.value(), turn: this.turn }) });
    });
    this.remove = h('button', { type: 'button', class: 'button quiet', id: 'delete-template' }, 'Delete template');
    this.remove.addEventListener('click', () => this.send({ action: 'delete', target: this.template }));
    return h('div', { class: 'fields-saving' }, this.name, save, this.remove);
  }

  // News from the server: templates, whether these are all, and what came of a saving.
  offer(described) {
    const { templates, types, told, saved, whole } = JSON.parse(described);
    const before = this.rowsOf(this.template);
    Object.assign(this, { templates, types, whole });
    this.told.textContent = told;
    if (saved && saved.turn === this.turn) this.adopt(saved.name);
    else if (this.isGone()) this.leave(this.rows ?? before);
    this.show();
  }

  // What was saved is the template now; what was written while it was being saved stays, as a change of it.
  adopt(name) {
    if (this.written() === this.sent) Object.assign(this, NOTHING);
    this.template = name;
    this.say();
  }

  isGone() {
    return this.whole && this.template && !this.named(this.template);
  }

  // The template is there no more: its rows stay as fields of one's own; where none are known the first is chosen.
  leave(rows) {
    const gone = this.template;
    const isKnown = rows.length > 0 || this.isJson();
    Object.assign(this, isKnown ? { template: null, rows } : { template: this.templates[0].name });
    if (!isKnown) this.told.textContent = `The template ${gone} was deleted. Choose another one.`;
    this.say();
  }

  named(name) {
    return this.templates?.find((one) => one.name === name);
  }

  rowsOf(name) {
    return structuredClone(this.named(name)?.rows ?? []);
  }

  // A value from outside: remembered choices, or what this form said last. Its template may not be offered yet.
  take(value) {
    if (!value || value === this.said) return;
    const { template = null, rows = null, schema = null, json = null } = parsed(value);
    Object.assign(this, { template, rows, schema, draft: json });
    if (this.isGone()) this.leave(rows ?? []);
    this.show();
  }

  choose(name) {
    Object.assign(this, NOTHING, name ? { template: name } : { rows: [{ name: '' }] });
    if (!name) this.details.open = true;
    this.show();
    this.say();
  }

  isChanged() {
    return Boolean(this.rows && this.template) && canonical(filled(this.rows)) !== canonical(this.rowsOf(this.template));
  }

  // What the form asks for, as portal/ui/field_form.py reads it.
  value() {
    const { template, rows, schema, draft } = this;
    if (draft !== null) return { json: draft };
    if (schema) return { schema };
    return template && !this.isChanged() ? { template } : { template, rows: filled(rows ?? []) };
  }

  written() {
    return JSON.stringify([this.rows, this.schema, this.draft]);
  }

  say() {
    this.said = JSON.stringify(this.value());
    this.props.value = this.said;
  }

  show() {
    this.shown = this.rows ?? this.rowsOf(this.template);
    const own = this.named(this.template)?.own;
    this.fillChoice();
    if (document.activeElement !== this.name) this.name.value = own ? this.template : this.name.value;
    this.summarize();
    this.draw();
  }

  isJson() {
    return this.schema !== null || this.draft !== null;
  }

  fillChoice() {
    const options = (own) => this.templates.filter((one) => one.own === own).map((one) => h('option', { value: one.name }, one.title));
    const own = options(true);
    if (this.template && !this.named(this.template)) own.push(h('option', { value: this.template }, this.template));
    const groups = [h('optgroup', { label: 'Ready to use' }, ...options(false))];
    if (own.length) groups.push(h('optgroup', { label: 'Your own' }, ...own));
    this.choice.replaceChildren(...groups, h('option', { value: '' }, 'Other fields'));
  }

  summarize() {
    this.summary.textContent = this.words();
    this.choice.value = this.isJson() ? '' : (this.template ?? '');
    this.remove.hidden = this.isJson() || !this.named(this.template)?.own;
  }

  words() {
    if (this.draft !== null) return 'The JSON is not valid yet.';
    if (this.schema) return `${listing(Object.keys(this.schema.properties ?? {}))} (as the JSON Schema says)`;
    if (this.template && !this.rows && !this.named(this.template)) return 'Its fields are being fetched.';
    return `${listing(filled(this.shown).map((row) => row.name))}${this.isChanged() ? ' (changed)' : ''}`;
  }

  draw() {
    const tabs = Object.entries(LABELS).map(([tab, label]) => {
      const button = h('button', { type: 'button', 'aria-pressed': `${tab === this.tab}`, class: 'quiet' }, label);
      button.addEventListener('click', () => {
        this.tab = tab;
        this.draw();
      });
      return button;
    });
    const content = this.tab === 'json' ? this.json() : this.isJson() ? this.instead() : this.table();
    this.editor.replaceChildren(h('div', { class: 'fields-tabs', role: 'group', 'aria-label': 'Edit as' }, ...tabs), ...content);
  }

  // The tab Rows while JSON says what is read: rows are never shown beside what they would not change.
  instead() {
    const rows = h('button', { type: 'button', class: 'button', id: 'rows-instead' }, 'Use rows instead');
    rows.addEventListener('click', () => {
      Object.assign(this, { schema: null, draft: null });
      this.edited();
      this.draw();
    });
    return [h('p', { class: 'hint' }, 'What is written in the tab JSON says which fields are read. Saved as a template, it becomes rows.'), rows];
  }

  table() {
    const add = h('button', { type: 'button', class: 'button', id: 'add-field' }, 'Add a field');
    add.addEventListener('click', () => {
      this.shown.push({ name: '' });
      this.edited();
      this.draw();
      this.editor.querySelector('li:last-of-type input').focus();
    });
    return [h('ul', {}, ...this.shown.map((row, at) => this.row(row, at))), add];
  }

  row(row, at) {
    const name = this.input(row, 'name', { 'aria-label': `Name of field ${at + 1}`, placeholder: 'like: delivery date' });
    const type = h('select', { 'aria-label': `Type of field ${at + 1}` }, h('option', { value: '' }, 'By its name'),
      ...this.types.map((one) => h('option', { value: one }, TYPES[one] ?? one)));
    type.value = row.type ?? '';
    type.addEventListener('change', () => this.change(row, 'type', type.value, true));
    const gone = h('button', { type: 'button', class: 'quiet', 'aria-label': `Remove ${row.name || 'field'}` }, '×');
    gone.addEventListener('click', () => {
      this.shown.splice(at, 1);
      this.edited();
      this.draw();
    });
    const flags = h('div', { class: 'field-flags' }, this.flag(row, 'required', 'Required'), row.type === 'rows' ? '' : this.flag(row, 'many', 'Several'));
    const more = Object.entries(DETAILS).map(([key, [label, example]]) =>
      h('label', {}, h('span', {}, label), this.input(row, key, { placeholder: example })));
    const columns = row.type === 'rows' ? [h('label', { class: 'columns' }, h('span', {}, 'Columns'), this.columns(row))] : [];
    const rules = h('details', {}, h('summary', {}, 'Rules'), h('div', { class: 'field-rules' }, ...more));
    return h('li', {}, h('div', { class: 'field-row' }, name, type, gone), ...columns, h('div', { class: 'field-more' }, flags, rules));
  }

  input(row, key, attributes) {
    const isList = key === 'allowed';
    const input = h('input', { type: 'text', ...attributes });
    input.value = isList ? (row[key] ?? []).join(', ') : (row[key] ?? '');
    input.addEventListener('input', () => this.change(row, key, isList ? listed(input.value) : input.value));
    return input;
  }

  columns(row) {
    const input = h('input', { type: 'text', placeholder: 'like: description, quantity, unit_price, amount' });
    input.value = (row.children ?? []).map((child) => child.name).join(', ');
    input.addEventListener('input', () => {
      const known = new Map((row.children ?? []).map((child) => [child.name, child]));
      this.change(row, 'children', listed(input.value).map((name) => known.get(name) ?? { name }));
    });
    return input;
  }

  flag(row, key, label) {
    const box = h('input', { type: 'checkbox' });
    box.checked = Boolean(row[key]);
    box.addEventListener('change', () => this.change(row, key, box.checked));
    return h('label', {}, box, label);
  }

  change(row, key, value, isRedrawn = false) {
    if (value === '' || value === false || value.length === 0) delete row[key];
    else row[key] = value;
    if (key === 'name') row.name = value;
    this.edited();
    if (isRedrawn) this.draw();
  }

  json() {
    const text = h('textarea', { rows: 14, spellcheck: 'false', 'aria-label': 'Rows as JSON, or a JSON Schema' });
    text.value = this.draft ?? JSON.stringify(this.schema ?? filled(this.shown), null, 2);
    const problem = h('p', { class: 'fields-problem', role: 'alert' }, this.draft === null ? '' : problemOf(this.draft));
    text.addEventListener('input', () => {
      this.write(text.value);
      problem.textContent = this.draft === null ? '' : problemOf(text.value);
    });
    return [h('p', { class: 'hint' }, 'Rows, or a JSON Schema with properties.'), text, problem];
  }

  write(text) {
    Object.assign(this, { draft: null, schema: null });
    if (problemOf(text)) this.draft = text;
    else {
      const given = JSON.parse(text);
      if (Array.isArray(given)) this.shown = given.map((row) => (typeof row === 'string' ? { name: row } : row));
      else this.schema = given;
    }
    this.edited();
  }

  edited() {
    this.rows = this.shown;
    this.summarize();
    this.say();
  }
}
