// The page viewer: a job's pages in a strip, the page with its boxes, and its text, linked line by line.
// Gradio says what the job is and how its pages stand; each page is fetched when it is looked at.
import { blockOf, copied } from './copying.js';
import { h } from './dom.js';
import { Fields } from './fields.js';
import { helpDialog } from './help.js';
import { Lines, NONE } from './lines.js';
import { PageView } from './page.js';
import { Result } from './result.js';
import { Strip } from './strip.js';

const FIELDS = 'input, textarea, select, [contenteditable]';

export const mount = (element, props, watch, send) => {
  const viewer = new Viewer(element, send);
  const update = () => viewer.update(props.described, props.value);
  watch(['described', 'value'], update);
  update();
};

class Viewer {
  constructor(host, send) {
    this.host = host;
    this.send = send;
    this.keys = {
      j: () => this.lines.step(1),
      k: () => this.lines.step(-1),
      '[': () => this.turnTo(this.position - 1),
      ']': () => this.turnTo(this.position + 1),
      n: () => this.nextCheck(),
      c: () => this.copyBlock(),
      '+': () => this.page.zoom(1, this.lines.hot),
      '=': () => this.page.zoom(1, this.lines.hot),
      '-': () => this.page.zoom(-1, this.lines.hot),
      '−': () => this.page.zoom(-1, this.lines.hot),
      0: () => this.page.fit('page'),
      '?': () => this.help(),
      escape: () => this.closeMenu() || this.lines.pin(NONE),
    };
    this.acts = {
      'zoom-in': () => this.page.zoom(1, this.lines.hot),
      'zoom-out': () => this.page.zoom(-1, this.lines.hot),
      'fit-page': () => this.page.fit('page'),
      'fit-width': () => this.page.fit('width'),
      turn: () => this.page.turn(this.page.turned + 90),
      full: () => (document.fullscreenElement ? document.exitFullscreen() : this.root.requestFullscreen()),
      help: () => this.help(),
      filter: () => this.filter(!this.isOnlyChecks),
      retry: () => this.send({ action: 'retry', target: String(this.position) }),
    };
    this.onKey = (event) => this.keyed(event);
    document.addEventListener('keydown', this.onKey);
    // What failed to load while the portal was away is fetched as soon as it is back.
    this.onBack = () => (this.host.isConnected ? this.job && this.load() : this.leave());
    window.addEventListener('portal:back', this.onBack);
  }

  leave() {
    document.removeEventListener('keydown', this.onKey);
    window.removeEventListener('portal:back', this.onBack);
  }

  // News from Gradio. Both parts come together or the second alone; one that fits no job yet waits.
  update(described, value) {
    if (!described || !value) return;
    const standing = JSON.parse(value);
    if (this.job?.id !== standing.id) {
      const job = JSON.parse(described);
      if (job.id !== standing.id) return;
      this.build(job, standing.pages.length);
    }
    if (!this.root.isConnected) this.host.replaceChildren(this.root);
    const before = this.standing?.pages[this.position - 1];
    this.standing = standing;
    this.strip.update(standing.pages, standing.checks);
    if (!before) this.strip.select(this.position);
    if (standing.pages[this.position - 1] !== before) this.load();
    this.hear(standing);
  }

  // Fields: fetched when a page ended or a value was corrected.
  hear({ pages, told }) {
    if (!this.fields) return;
    const isNews = told && told.mark !== this.heard;
    if (isNews) this.fields.told(told);
    if (pages === this.fieldsOf && !isNews) return;
    this.fieldsOf = pages;
    this.heard = told?.mark ?? this.heard;
    this.loadFields();
  }

  async loadFields() {
    try {
      await this.fields.load();
      if (this.reading) this.result.drawFields();
    } catch {
      this.say('The fields could not be loaded. Reload the page.');
    }
  }

  // Turns to a value: its page, then its line.
  showValue(page, path) {
    if (page !== this.position) return this.turnTo(page, { path });
    this.result.drawFields();
    return this.toValue(path);
  }

  toValue(path) {
    const value = this.fields.found?.documents.flatMap((one) => one.values).find((one) => one.path === path && one.page === this.position);
    if (!value?.box) return;
    const at = (this.reading.page_text?.lines ?? []).findIndex(({ box }) => box?.every((edge, index) => edge === value.box[index]));
    if (at >= 0) this.lines.goTo(at);
  }

  build(job, count) {
    this.job = job;
    this.count = count;
    this.standing = null;
    this.reading = null;
    this.isOnlyChecks = false;
    this.strip = new Strip(job, (position) => this.address(position));
    this.page = new PageView();
    this.fields = job.has_fields ? this.reviewed(job) : null;
    this.fieldsOf = null;
    this.result = new Result(job, this.fields);
    this.lines = new Lines(this.page, this.result);
    this.status = h('p', { class: 'viewer-status', role: 'status', 'aria-live': 'polite' });
    this.root = h('div', { class: 'viewer', 'data-side': 'result' }, this.sides(), this.strip.element, this.page.element, this.result.element, this.status);
    this.listen();
    this.host.replaceChildren(this.root);
    const asked = Number(new URLSearchParams(location.search).get('at'));
    this.position = asked >= 1 && asked <= count ? Math.floor(asked) : 1;
  }

  reviewed(job) {
    return new Fields(job, {
      show: (page, path) => this.showValue(page, path),
      correct: (position, path, value) => this.send({ action: 'correct', target: JSON.stringify({ position, path, value }) }),
    });
  }

  sides() {
    const buttons = [['page', 'Page'], ['result', 'Result']].map(([side, label]) =>
      h('button', { type: 'button', 'data-side': side, 'aria-pressed': `${side === 'result'}` }, label),
    );
    return h('div', { class: 'sides', role: 'group', 'aria-label': 'Show' }, ...buttons);
  }

  address(position) {
    return `/?job=${encodeURIComponent(this.job.id)}&at=${position}`;
  }

  // Pages
  turnTo(position, wanted = null) {
    if (position < 1 || position > this.count || position === this.position) return;
    this.position = position;
    this.wanted = wanted;
    history.replaceState(null, '', this.address(position));
    this.strip.select(position);
    this.load();
  }

  async load() {
    this.loading?.abort();
    const loading = (this.loading = new AbortController());
    const file = `/files/jobs/${encodeURIComponent(this.job.id)}/pages/${this.position}`;
    this.root.setAttribute('aria-busy', 'true');
    try {
      const answer = await fetch(`${file}.json`, { signal: loading.signal });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const reading = withPlaces(await answer.json());
      if (loading === this.loading) this.show(reading, `${file}.jpg`);
    } catch {
      if (loading === this.loading) this.missed();
    }
  }

  missed() {
    this.root.removeAttribute('aria-busy');
    this.say('This page could not be loaded. Choose it again to retry.');
  }

  show(reading, source) {
    this.root.removeAttribute('aria-busy');
    this.reading = reading;
    this.page.show(reading, source);
    this.result.show(reading, this.outcome(reading), this.isOnlyChecks);
    this.lines.show(reading);
    this.filter(this.isOnlyChecks);
    this.root.dataset.shown = this.position;
    if (this.wanted?.path) this.toValue(this.wanted.path);
    if (this.wanted === 'check') this.toCheck(this.lines.checks[0] ?? NONE);
    this.wanted = null;
  }

  outcome(reading) {
    if (reading.error) return `${reading.error.message} ${reading.error.remedy}`;
    return this.job.outcomes[reading.is_blank ? 'b' : reading.state[0]] ?? this.job.outcomes.b;
  }

  // Lines to check
  nextCheck() {
    const { checks, at } = this.lines;
    const later = checks.find((line) => line > at);
    if (later !== undefined) return this.toCheck(later);
    for (let step = 1; step < this.count; step += 1) {
      const position = ((this.position - 1 + step) % this.count) + 1;
      if (this.standing.checks[position - 1]) return this.turnTo(position, 'check');
    }
    return this.toCheck(checks[0] ?? NONE);
  }

  toCheck(line) {
    const { checks } = this.lines;
    this.lines.goTo(line);
    this.say(line === NONE ? 'No lines to check.' : `Line to check ${checks.indexOf(line) + 1} of ${checks.length}`);
  }

  filter(isOnlyChecks) {
    this.isOnlyChecks = isOnlyChecks;
    this.result.filter(isOnlyChecks);
    this.lines.isOnlyChecks = isOnlyChecks;
    this.page.element.classList.toggle('only-checks', isOnlyChecks);
  }

  // Events: a few listeners for the whole viewer, whatever the number of lines.
  listen() {
    this.root.addEventListener('pointerover', (event) => this.pointed(event.target));
    this.root.addEventListener('pointerleave', () => this.lines.rest());
    this.root.addEventListener('focusin', (event) => this.focused(event.target));
    this.root.addEventListener('click', (event) => this.clicked(event));
    this.root.addEventListener('keydown', (event) => this.entered(event));
  }

  pointed(target) {
    if (this.page.isDragged && this.page.pointers.size) return;
    const line = target.closest('[data-line]');
    if (line) this.lines.light(Number(line.dataset.line));
    else if (!target.closest('.block-tools')) this.lines.rest();
    this.result.offerCopies(target.closest('#text-pane .block'));
  }

  focused(target) {
    const line = target.closest('[data-line]');
    if (line) this.lines.focused(Number(line.dataset.line), line);
  }

  clicked(event) {
    const { target } = event;
    if (!target.closest('details')) this.closeMenu();
    const acts = target.closest('[data-act], [data-tab], [data-copies], [data-position], .sides [data-side]');
    if (acts) return this.act(acts, event);
    const line = target.closest('[data-line]');
    const isSelecting = !getSelection().isCollapsed;
    if (line && !isSelecting && !this.page.isDragged) this.lines.choose(Number(line.dataset.line), line);
    return undefined;
  }

  act(chosen, event) {
    const { act, tab, copies, position, side } = chosen.dataset;
    if (act) this.acts[act]();
    else if (tab) this.turnTab(tab);
    else if (copies) this.copyFrom(copies, chosen);
    else if (side) this.turnSide(side);
    else if (!event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      if (Number(position) === this.position) this.load();
      else this.turnTo(Number(position));
    }
  }

  turnTab(tab) {
    this.result.select(tab);
    this.lines.restate();
  }

  turnSide(side) {
    this.root.dataset.side = side;
    for (const button of this.root.querySelectorAll('.sides button')) {
      button.setAttribute('aria-pressed', button.dataset.side === side);
    }
    // The other side has a size from now on, and shows the line that was chosen on this one.
    requestAnimationFrame(() => this.lines.see(side));
  }

  entered(event) {
    const line = event.target.closest('[data-line]');
    if (!line || (event.key !== 'Enter' && event.key !== ' ')) return;
    event.preventDefault();
    this.lines.choose(Number(line.dataset.line), line);
  }

  keyed(event) {
    if (!this.host.isConnected) this.leave();
    const isElsewhere = event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.(FIELDS);
    if (isElsewhere || !this.root?.getClientRects().length || document.querySelector('dialog[open]')) return;
    const act = this.keys[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  }

  help() {
    const dialog = helpDialog();
    dialog.addEventListener('close', () => dialog.remove());
    this.root.append(dialog);
    dialog.showModal();
  }

  // The block of the line that is looked at: a table as a spreadsheet takes it, else as text.
  copyBlock() {
    const line = Math.max(this.lines.looked, 0);
    const block = this.reading?.page_text ? blockOf(this.reading, line) : NONE;
    if (block === NONE) return this.say('There is no block to copy.');
    const isTable = this.reading.page_text.blocks[block].kind === 'table';
    return this.copy(`block ${isTable ? 'tsv' : 'text'}`, block);
  }

  // True when there was an open menu; the focus that was in it stays beside it.
  closeMenu() {
    const menu = this.root.querySelector('details[open]');
    if (menu?.contains(document.activeElement)) menu.querySelector('summary').focus();
    menu?.removeAttribute('open');
    return Boolean(menu);
  }

  copyFrom(what, button) {
    if (button.closest('details')) this.closeMenu();
    return this.copy(what, Number(button.dataset.block));
  }

  async copy(what, block) {
    try {
      this.say(await copied(what, { reading: this.reading, block, job: this.job }));
    } catch {
      this.say('The browser refused to copy. Select the text and press Ctrl+C.');
    }
  }

  say(text) {
    clearTimeout(this.saying);
    this.status.textContent = text;
    this.saying = setTimeout(() => (this.status.textContent = ''), 4000);
  }
}

// The lines of a page with those where only a value of its fields stands, after its own: boxes without text beside them.
const withPlaces = (reading) => {
  if (reading.page_text) {
    reading.own_lines = reading.page_text.lines.length;
    reading.page_text.lines.push(...reading.places);
  }
  return reading;
};
