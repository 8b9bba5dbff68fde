// What was read: tabs Text · Translation · Table · JSON · Code. Lines are spans that carry their number; all text is text nodes.
import { FORMS } from './copying.js';
import { counted, h, icon } from './dom.js';
import { isDoubtful } from './page.js';
import { translationOf } from './translation.js';

const TABS = {
  fields: 'Fields', text: 'Text', translation: 'Translation', table: 'Table', json: 'JSON', code: 'Code',
};
const SNIPPETS = { curl: 'curl', python: 'Python', javascript: 'JavaScript' };
const COPIES = {
  'page text': 'This page as text',
  'page markdown': 'This page as Markdown',
  'document text': 'Whole job as text',
  'document markdown': 'Whole job as Markdown',
};
const BUTTONS = { text: 'Text', markdown: 'Markdown', tsv: 'TSV' };
const CUTS = { repetition: 'Stopped where the output began to repeat.', length: 'Stopped at the longest output.' };

export class Result {
  constructor(job, fields = null) {
    this.job = job;
    this.fields = fields;
    this.isOnlyChecks = false;
    this.lines = [];
    this.stale = new Set();
    this.panels = {
      ...(fields ? { fields: this.panel('fields', fields.element) } : {}),
      text: this.panel('text'),
      translation: this.panel('translation'),
      table: this.panel('table'),
      json: this.panel('json'),
      code: this.panel('code', this.code()),
    };
    this.tabs = Object.keys(this.panels).map((name) => this.tab(name, TABS[name]));
    this.tools = h('span', { class: 'block-tools', role: 'group', 'aria-label': 'Copy this block' });
    const list = h('div', { role: 'tablist', class: 'result-tabs', 'aria-label': 'Result' }, ...this.tabs);
    list.addEventListener('keydown', (event) => this.steered(event));
    this.element = h('section', { class: 'result', 'aria-label': 'Result' }, list, ...Object.values(this.panels));
    this.offerTranslation(false);
    this.select(fields ? 'fields' : 'text');
  }

  tab(name, label) {
    return h('button', { type: 'button', role: 'tab', id: `tab-${name}`, 'data-tab': name, 'aria-controls': `${name}-pane` }, label);
  }

  panel(name, ...content) {
    return h('div', { role: 'tabpanel', id: `${name}-pane`, class: 'result-pane', 'aria-labelledby': `tab-${name}` }, ...content);
  }

  steered(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const tabs = this.tabs.filter((tab) => !tab.hidden);
    const at = tabs.indexOf(event.target.closest('[role=tab]'));
    const next = tabs[(at + step + tabs.length) % tabs.length];
    next.click();
    next.focus();
  }

  select(name) {
    this.selected = name;
    for (const tab of this.tabs) {
      const isSelected = tab.dataset.tab === name;
      tab.setAttribute('aria-selected', isSelected);
      tab.tabIndex = isSelected ? 0 : -1;
      this.panels[tab.dataset.tab].hidden = !isSelected;
    }
    this.fill(name);
  }

  // Draws a page's text; tables and JSON wait until their tab is looked at.
  show(reading, outcome, isOnlyChecks) {
    this.reading = reading;
    this.lines = (reading.page_text?.lines ?? []).map(() => []);
    this.tools.remove();
    this.stale = new Set(['fields', 'text', 'translation', 'table', 'json']);
    const hasText = reading.page_text && !reading.is_blank;
    this.outcome = hasText ? null : this.withoutText(reading.state, outcome);
    this.isOnlyChecks = isOnlyChecks;
    this.offerTranslation(Boolean(reading.translation));
    this.fill(this.selected);
  }

  // A job that was not a translation has no tab for one; one that was opens with it.
  offerTranslation(isThere) {
    const tab = this.tabs.find((each) => each.dataset.tab === 'translation');
    const isNew = isThere && tab.hidden;
    tab.hidden = !isThere;
    if (isNew && this.selected === 'text') this.select('translation');
    else if (!isThere && this.selected === 'translation') this.select('text');
  }

  withoutText(state, outcome) {
    const retry = { type: 'button', class: 'button', id: 'retry-page', 'data-act': 'retry' };
    const button = state === 'failed' ? [h('button', retry, this.job.retry)] : [];
    return h('div', { class: 'no-text', 'data-state': state }, h('p', {}, outcome), ...button);
  }

  fill(name) {
    if (!this.reading || !this.stale.delete(name)) return undefined;
    if (name === 'fields') return this.drawFields();
    const content = this.outcome ? [this.outcome.cloneNode(true)] : this[`${name}Content`]();
    return this.panels[name].replaceChildren(...content);
  }

  // Fields: each value stands in the line whose box it has, so that both light up together.
  drawFields() {
    const lines = this.reading.page_text?.lines ?? [];
    const isHere = (value) => value.page === this.reading.position && value.box;
    const line = (value) => (isHere(value) ? lines.findIndex(({ box }) => box?.every((edge, at) => edge === value.box[at])) : -1);
    this.lines.forEach((drawn, at) => (this.lines[at] = drawn.filter((one) => !this.panels.fields.contains(one))));
    this.fields.draw(this.reading.position, line, this.lines);
    if (this.outcome) this.fields.element.prepend(this.outcome.cloneNode(true));
  }

  // Text
  textContent() {
    const text = this.reading.page_text;
    this.reader = h('article', {
      class: 'reading',
      id: 'page-text',
      'data-page': this.reading.number,
      lang: this.reading.language,
    });
    text.blocks.forEach((block, at) => this.reader.append(this.block(block, at)));
    if (!text.blocks.length) this.reader.append(h('div', { class: 'plain', tabindex: '0' }, text.markdown));
    if (text.truncated) this.reader.append(h('p', { class: 'cut' }, CUTS[text.truncated] ?? 'Cut short.'));
    this.reader.append(h('p', { class: 'no-checks' }, 'No lines to check on this page.'));
    this.filter(this.isOnlyChecks);
    return [this.textTools(), this.reader];
  }

  textTools() {
    const { page_text: text, lines_to_check: count } = this.reading;
    const unmarked = text.lines.some((line) => line.score !== null) ? 'No lines are marked for this engine' : 'No score from this engine';
    const label = count === null ? unmarked : `Only lines to check (${count})`;
    this.filterButton = h(
      'button',
      { type: 'button', class: 'quiet filter', 'data-act': 'filter', 'aria-pressed': 'false', disabled: !count && !this.isOnlyChecks },
      icon('flag'),
      label,
    );
    const turned = text.rotation_degrees ? h('span', { class: 'remark' }, `Turned upright by ${text.rotation_degrees}°`) : '';
    const copies = Object.entries(COPIES).map(([copy, title]) =>
      h('button', { type: 'button', class: 'quiet', 'data-copies': copy }, title),
    );
    const menu = h('details', { class: 'menu' }, h('summary', { class: 'quiet' }, icon('copy'), 'Copy'), h('div', {}, ...copies));
    return h('div', { class: 'result-tools' }, this.filterButton, turned, menu);
  }

  filter(isOnlyChecks) {
    this.isOnlyChecks = isOnlyChecks;
    this.reader?.classList.toggle('only-checks', isOnlyChecks);
    this.filterButton?.setAttribute('aria-pressed', isOnlyChecks);
  }

  block(block, at) {
    const rows = block.kind === 'table' ? [this.table(block, at)] : block.rows.map((row) => this.row(row));
    const marked = block.rows.some((row) => this.isMarked(row)) ? ' has-check' : '';
    return h('section', { class: `block${marked}`, 'data-block': at }, ...rows);
  }

  row(row) {
    const cells = row.map((cell) => this.cell('span', cell, row.length > 1 ? { class: 'cell' } : {}));
    const spaced = cells.flatMap((cell, at) => (at ? [' ', cell] : [cell]));
    return h('div', { class: `row${this.isMarked(row) ? ' has-check' : ''}`, dir: 'auto' }, ...spaced);
  }

  table(block, at) {
    const rows = block.rows.map((row) =>
      h('tr', { class: this.isMarked(row) ? 'has-check' : null }, ...row.map((cell) => this.cell('td', cell, { dir: 'auto' }))),
    );
    const table = h('table', { 'aria-label': `Table with ${counted(rows.length, 'row')}` }, h('tbody', {}, ...rows));
    return h('div', { class: 'table-scroll', role: 'region', tabindex: '0', 'aria-label': `Table in block ${at + 1}` }, table);
  }

  cell(tag, cell, attributes) {
    return h(tag, attributes, ...cell.flatMap((at, index) => (index ? [' ', this.line(at)] : [this.line(at)])));
  }

  line(at) {
    const isToCheck = this.isToCheck(at);
    const drawn = h('span', { class: isToCheck ? 'line check' : 'line', 'data-line': at, tabindex: '-1' });
    if (isToCheck) {
      drawn.title = 'Read with little confidence: compare it with the page';
      drawn.append(icon('flag'), h('span', { class: 'unseen' }, 'To check: '));
    }
    drawn.append(this.reading.page_text.lines[at].text);
    this.lines[at].push(drawn);
    return drawn;
  }

  isToCheck(at) {
    const { check_below: below, lines } = this.reading.page_text;
    return isDoubtful(lines[at], below);
  }

  isMarked(row) {
    return row.some((cell) => cell.some((at) => this.isToCheck(at)));
  }

  // The copy buttons of one block follow the line that is looked at: a page of 200 blocks has no 600 tab stops.
  offerCopies(section) {
    if (!section || this.tools.parentElement === section || this.tools.contains(document.activeElement)) return;
    const isTable = Boolean(section.querySelector('table'));
    const forms = isTable ? ['text', 'markdown', 'tsv'] : ['text', 'markdown'];
    this.tools.replaceChildren(icon('copy'), ...forms.map((form) => this.copyButton(section.dataset.block, form)));
    section.append(this.tools);
  }

  copyButton(block, form) {
    const label = `Copy this block as ${FORMS[form]}`;
    return h('button', { type: 'button', 'data-copies': `block ${form}`, 'data-block': block, 'aria-label': label, title: label }, BUTTONS[form]);
  }

  // Translation
  translationContent() {
    return this.reading.translation ? translationOf(this.reading) : [];
  }

  // Table
  tableContent() {
    const tables = this.reading.page_text.blocks.flatMap((block, at) => (block.kind === 'table' ? [[block, at]] : []));
    if (!tables.length) return [h('div', { class: 'no-text' }, h('p', {}, 'No table on this page.'))];
    const drawn = tables.map(([block, at], number) => {
      const title = `Table ${number + 1} · ${block.rows.length} × ${block.rows[0]?.length ?? 0}`;
      const tools = h('div', { class: 'result-tools' }, h('h2', {}, title), this.copyButtonOf(at, 'tsv'), this.copyButtonOf(at, 'markdown'));
      return h('section', { class: 'block', 'data-block': at }, tools, this.table(block, at));
    });
    return [h('div', { class: 'reading' }, ...drawn)];
  }

  copyButtonOf(block, form) {
    const button = this.copyButton(block, form);
    button.className = 'quiet';
    button.textContent = `Copy ${BUTTONS[form]}`;
    return button;
  }

  // JSON and code
  jsonContent() {
    const { page_text: text, own_lines: count } = this.reading;
    const source = JSON.stringify({ ...text, lines: text.lines.slice(0, count) }, null, 2);
    return [this.source('page-json', source, 'PageText of this page')];
  }

  code() {
    const hint = h('p', { class: 'hint' }, 'The same files, task and options through the API. Put your key in place of ', h('code', {}, 'your-api-key'), ': ');
    hint.append(h('a', { href: '/keys' }, 'make one'), '.');
    const drawn = Object.entries(SNIPPETS).map(([name, title]) => this.source(`code-${name}`, this.job.code[name], title));
    return h('div', { class: 'reading' }, hint, ...drawn);
  }

  source(id, text, title) {
    const copy = h('button', { type: 'button', class: 'quiet', 'data-copies': `source ${id}` }, `Copy ${title.split(' ')[0]}`);
    const tools = h('div', { class: 'result-tools' }, h('h2', {}, title), copy);
    return h('section', { class: 'code' }, tools, h('pre', { class: 'source', id, tabindex: '0' }, text));
  }
}
