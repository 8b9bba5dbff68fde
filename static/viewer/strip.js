// The strip of pages: thumbnail, number, state dot, lines to check. Only what changed is drawn again.
import { h, icon, reveal } from './dom.js';

const HAS_IMAGE = 'sb';

export class Strip {
  constructor(job, address) {
    this.job = job;
    this.address = address;
    this.entries = [];
    this.drawn = [];
    this.element = h('nav', { class: 'strip', 'aria-label': 'Pages of this job' });
    for (const { name, numbers } of job.documents) this.addDocument(name, numbers, job.documents.length > 1);
  }

  addDocument(name, numbers, isOneOfSeveral) {
    if (isOneOfSeveral) this.element.append(h('h2', { title: name, dir: 'auto' }, name));
    this.element.append(h('ol', {}, ...numbers.map((number) => this.entry(number))));
  }

  entry(number) {
    const position = this.entries.length + 1;
    const parts = {
      picture: h('span', { class: 'thumb', 'aria-hidden': 'true' }),
      state: h('small', {}),
      checks: h('span', { class: 'strip-checks', hidden: true }),
    };
    parts.link = h(
      'a',
      { href: this.address(position), 'data-position': position },
      parts.picture,
      h('i', { 'aria-hidden': 'true' }),
      h('span', {}, `Page ${number}`),
      parts.state,
      parts.checks,
    );
    this.entries.push(parts);
    return h('li', {}, parts.link);
  }

  update(letters, checks) {
    for (let at = 0; at < this.entries.length; at += 1) {
      const mark = `${letters[at]}${checks[at]}`;
      if (this.drawn[at] === mark) continue;
      this.drawn[at] = mark;
      this.draw(this.entries[at], at + 1, letters[at], checks[at]);
    }
  }

  draw({ link, picture, state, checks }, position, letter, count) {
    link.dataset.state = letter;
    state.textContent = this.job.states[letter];
    if (HAS_IMAGE.includes(letter) && !picture.firstChild) {
      const src = `/files/jobs/${encodeURIComponent(this.job.id)}/pages/${position}.small.jpg`;
      // `loading` first: an image whose source is set before it is fetched at once.
      picture.append(h('img', { loading: 'lazy', decoding: 'async', alt: '', src }));
    }
    checks.hidden = !count;
    checks.replaceChildren(icon('flag'), `${count || ''}`, h('span', { class: 'unseen' }, ' to check'));
  }

  select(position) {
    this.element.querySelector('[aria-current]')?.removeAttribute('aria-current');
    const { link } = this.entries[position - 1];
    link.setAttribute('aria-current', 'page');
    const outer = this.element.getBoundingClientRect();
    if (outer.height) reveal(this.element, link);
  }
}
