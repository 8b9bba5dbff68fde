// Lines and their boxes as one: lit, pinned, focused together. A change touches two elements, whatever the page holds.
import { reveal } from './dom.js';

export const NONE = -1;

export class Lines {
  constructor(page, result) {
    this.page = page;
    this.result = result;
    this.isOnlyChecks = false;
    this.show({});
  }

  show(reading) {
    Object.assign(this, { at: NONE, hot: NONE, pinned: NONE });
    this.texts = (reading.page_text?.lines ?? []).map((line) => line.text);
    this.checks = [...this.texts.keys()].filter((at) => this.result.isToCheck(at));
    this.rove(0, '0');
  }

  // The line that a person looks at: lit, else the one that keys stand on.
  get looked() {
    return this.hot === NONE ? this.at : this.hot;
  }

  mark(at, name, isOn) {
    this.page.boxes[at]?.classList.toggle(name, isOn);
    for (const drawn of this.result.lines[at] ?? []) drawn.classList.toggle(name, isOn);
  }

  light(at) {
    if (at === this.hot) return;
    this.mark(this.hot, 'hot', false);
    this.hot = at;
    this.mark(at, 'hot', true);
    if (at !== NONE) this.offerCopies(at);
  }

  offerCopies(at) {
    const sections = (this.result.lines[at] ?? []).map((drawn) => drawn.closest('#text-pane .block'));
    this.result.offerCopies(sections.find(Boolean));
  }

  // Back to the pinned line, when the pointer is on no line.
  rest() {
    this.light(this.pinned);
  }

  // Makes a line the one that keys start from: lit, and the only one of its side that Tab reaches.
  stand(at) {
    this.rove(Math.max(this.at, 0), '-1');
    this.at = at;
    this.rove(at, '0');
    this.light(at);
  }

  rove(at, tabindex) {
    for (const drawn of [this.page.boxes[at], ...(this.result.lines[at] ?? [])]) {
      if (drawn && drawn.localName !== 'button') drawn.setAttribute('tabindex', tabindex);
    }
  }

  // After a tab was drawn for the first time: its lines learn how they stand.
  restate() {
    this.mark(this.hot, 'hot', true);
    this.mark(this.pinned, 'pinned', true);
    this.rove(Math.max(this.at, 0), '0');
  }

  pin(at) {
    const next = at === this.pinned ? NONE : at;
    this.mark(this.pinned, 'pinned', false);
    this.pinned = next;
    this.mark(next, 'pinned', true);
    if (at === NONE) this.light(NONE);
    else this.stand(at);
  }

  // A click or Enter on a line: pinned, and the other side scrolls to it.
  choose(at, drawn) {
    this.pin(at);
    this.seeOther(at, drawn);
  }

  focused(at, drawn) {
    this.stand(at);
    if (drawn.ownerSVGElement) nameBox(drawn, this.texts[at]);
    if (drawn.matches(':focus-visible')) this.seeOther(at, drawn);
  }

  goTo(at) {
    if (at === NONE) return;
    this.stand(at);
    const target = (this.isInResult() ? null : this.page.boxes[at]) ?? this.shown(at);
    target?.focus({ preventScroll: true });
    this.seeText(at);
    this.page.reveal(at);
  }

  step(by) {
    const shown = this.isOnlyChecks ? this.checks : [...this.texts.keys()];
    const next = by > 0 ? shown.find((at) => at > this.at) : shown.findLast((at) => at < this.at);
    this.goTo(next ?? (this.at === NONE ? (shown[0] ?? NONE) : this.at));
  }

  isInResult() {
    const isPageHidden = !this.page.element.getClientRects().length;
    return isPageHidden || this.result.element.contains(document.activeElement);
  }

  see(side) {
    const at = this.pinned === NONE ? this.at : this.pinned;
    if (side === 'result') this.seeText(at);
    else this.page.reveal(at);
  }

  seeOther(at, drawn) {
    if (drawn.ownerSVGElement) this.seeText(at);
    else this.page.reveal(at);
  }

  seeText(at) {
    const drawn = this.shown(at);
    if (drawn) reveal(drawn.closest('.reading'), drawn);
  }

  shown(at) {
    return (this.result.lines[at] ?? []).find((drawn) => drawn.getClientRects().length);
  }
}

// Two thousand names would cost more than the boxes; the one that has the focus gets its own.
const nameBox = (box, text) => {
  box.setAttribute('role', 'button');
  box.setAttribute('aria-label', text);
};
