// The form of the task Fields: a template, its rows to edit, the JSON behind a tab. The value is JSON text that
// portal/ui/field_form.py reads. Everything is drawn with text nodes.
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

export const mount = (element, props, watch, send) => {
  const form = new FieldsForm(element, props, send);
  watch('described', () => form.offer(props.described));
  watch('value', () => form.take(props.value));
  form.offer(props.described);
  form.take(props.value);
};

class FieldsForm {
  constructor(host, props, send) {
    Object.assign(this, { host, props, send, template: null, rows: [], schema: null, tab: 'rows', isEdited: false });
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
    save.addEventListener('click', () => this.send({ action: 'save', target: JSON.stringify({ name: this.name.value, rows: this.sent() }) }));
    this.remove = h('button', { type: 'button', class: 'button quiet', id: 'delete-template' }, 'Delete template');
    this.remove.addEventListener('click', () => this.send({ action: 'delete', target: this.template }));
    return h('div', { class: 'fields-saving' }, this.name, save, this.remove);
  }

  // News from the server: templates, and what came of a saving.
  offer(described) {
    const { templates, types, told } = JSON.parse(described);
    Object.assign(this, { templates, types });
    this.told.textContent = told;
    const named = (own) => templates.filter((one) => one.own === own).map((one) => h('option', { value: one.name }, one.title));
    const groups = [h('optgroup', { label: 'Ready to use' }, ...named(false))];
    if (templates.some((one) => one.own)) groups.push(h('optgroup', { label: 'Your own' }, ...named(true)));
    this.choice.replaceChildren(...groups, h('option', { value: '' }, 'Other fields'));
    if (told.startsWith('Saved') && this.named(this.name.value)) this.template = this.name.value;
    this.show();
  }

  named(name) {
    return this.templates.find((one) => one.name === name);
  }

  // A value from outside: remembered choices, or what this form said last.
  take(value) {
    if (!value || value === this.said) return;
    let given;
    try {
      given = JSON.parse(value);
    } catch {
      given = { rows: value.split(',').map((name) => ({ name: name.trim() })).filter((row) => row.name) };
    }
    this.schema = given.schema ?? null;
    this.template = this.named(given.template) ? given.template : null;
    this.isEdited = Boolean(given.rows);
    this.rows = structuredClone(given.rows ?? this.named(this.template)?.rows ?? []);
    this.show();
  }

  choose(name) {
    this.template = name || null;
    this.schema = null;
    this.isEdited = false;
    const chosen = this.named(name);
    if (chosen) this.rows = structuredClone(chosen.rows);
    else {
      this.rows = [{ name: '' }];
      this.details.open = true;
    }
    this.show();
    this.say();
  }

  show() {
    this.choice.value = this.template ?? '';
    this.remove.hidden = !this.named(this.template)?.own;
    if (document.activeElement !== this.name) this.name.value = this.named(this.template)?.own ? this.template : this.name.value;
    const names = this.rows.map((row) => row.name).filter(Boolean).map(titled);
    this.summary.textContent = this.schema ? 'As the JSON Schema says' : `${names.length} fields: ${names.join(', ')}`;
    if (this.isEdited && this.template) this.summary.textContent += ' (changed)';
    this.draw();
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
    const content = this.tab === 'json' ? this.json() : this.table();
    this.editor.replaceChildren(h('div', { class: 'fields-tabs', role: 'group', 'aria-label': 'Edit as' }, ...tabs), ...content);
  }

  table() {
    const add = h('button', { type: 'button', class: 'button', id: 'add-field' }, 'Add a field');
    add.addEventListener('click', () => {
      this.rows.push({ name: '' });
      this.draw();
      this.editor.querySelector('li:last-of-type input').focus();
    });
    return [h('ul', {}, ...this.rows.map((row, at) => this.row(row, at))), add];
  }

  row(row, at) {
    const name = this.input(row, 'name', { 'aria-label': `Name of field ${at + 1}`, placeholder: 'like: delivery date' });
    const type = h('select', { 'aria-label': `Type of field ${at + 1}` }, h('option', { value: '' }, 'By its name'),
      ...this.types.map((one) => h('option', { value: one }, TYPES[one] ?? one)));
    type.value = row.type ?? '';
    type.addEventListener('change', () => this.change(row, 'type', type.value, true));
    const gone = h('button', { type: 'button', class: 'quiet', 'aria-label': `Remove ${row.name || 'field'}` }, '×');
    gone.addEventListener('click', () => {
      this.rows.splice(at, 1);
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
    text.value = JSON.stringify(this.schema ?? this.sent(), null, 2);
    const problem = h('p', { class: 'fields-problem', role: 'alert' });
    text.addEventListener('input', () => {
      try {
        const given = JSON.parse(text.value);
        this.schema = Array.isArray(given) ? null : given;
        if (Array.isArray(given)) this.rows = given.map((row) => (typeof row === 'string' ? { name: row } : row));
        problem.textContent = '';
        this.edited();
      } catch (error) {
        problem.textContent = `Not valid JSON: ${error.message}`;
      }
    });
    return [h('p', { class: 'hint' }, 'Rows, or a JSON Schema with properties.'), text, problem];
  }

  edited() {
    this.isEdited = true;
    const names = this.rows.map((row) => row.name).filter(Boolean).map(titled);
    this.summary.textContent = `${names.length} fields: ${names.join(', ')} (changed)`;
    this.say();
  }

  sent() {
    return this.rows.filter((row) => row.name);
  }

  say() {
    const { template } = this;
    const given = this.schema ? { schema: this.schema } : this.isEdited || !template ? { template, rows: this.sent() } : { template };
    this.said = JSON.stringify(given);
    this.props.value = this.said;
  }
}

const titled = (name) => name.replaceAll('_', ' ');

const listed = (text) => text.split(',').map((one) => one.trim()).filter(Boolean);
