// Elements from names, attributes and children. Strings become text nodes, so nothing a scan says is ever parsed.
const SVG = 'http://www.w3.org/2000/svg';

const filled = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value != null) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children);
  return element;
};

export const h = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

// `1 field`, `12 fields`.
export const counted = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;

// Strokes on a 20 x 20 grid.
const ICONS = {
  minus: 'M4 10h12',
  plus: 'M4 10h12M10 4v12',
  page: 'M5 2.5h10v15H5zM8 6.5h4M8 10h4M8 13.5h4',
  width: 'M2.5 4v12M17.5 4v12M5 10h10M7.5 7.5 5 10l2.5 2.5M12.5 7.5 15 10l-2.5 2.5',
  turn: 'M15.5 7A6.5 6.5 0 1 0 16.5 11M16 2.5V7h-4.5',
  full: 'M3 7.5V3h4.5M12.5 3H17v4.5M17 12.5V17h-4.5M7.5 17H3v-4.5',
  help: 'M7 7.3a3 3 0 1 1 4.4 2.6c-1 .5-1.4 1-1.4 2.1M10 15.2v.3',
  pen: 'M4 16l1-4 8.5-8.5 3 3L8 15zM11.5 5.5l3 3',
  tick: 'M4 10.5l4 4 8-9',
  flag: 'M5 17.5V3.5M5 4h9.5l-2 3.5 2 3.5H5',
  copy: 'M7 7h9.5v9.5H7zM4.5 13H3.5V3.5H13v1',
};

export const icon = (name) =>
  svg('svg', { viewBox: '0 0 20 20', class: 'icon', 'aria-hidden': 'true' }, svg('path', { d: ICONS[name] }));

export const iconButton = (name, label, act, attributes = {}) =>
  h('button', { type: 'button', class: 'tool', 'data-act': act, 'aria-label': label, title: label, ...attributes }, icon(name));

// Scrolls `element` into the middle of its own scroller and moves nothing else; on a phone, where the page itself
// scrolls, just into sight.
export const reveal = (scroller, element) => {
  if (scroller.scrollHeight <= scroller.clientHeight + 1) {
    element.scrollIntoView({ block: 'nearest' });
    return;
  }
  const [inner, outer] = [element.getBoundingClientRect(), scroller.getBoundingClientRect()];
  if (inner.top < outer.top || inner.bottom > outer.bottom) {
    scroller.scrollTop += inner.top - outer.top - (outer.height - inner.height) / 2;
  }
  if (inner.left < outer.left || inner.right > outer.right) scroller.scrollLeft += inner.left - outer.left - 16;
};
