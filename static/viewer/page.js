// The page's image with a box for each line, in page pixels. Zoom, pan and turning only change the SVG's viewBox and one
// transform, so boxes need no arithmetic and no layout.
import { h, icon, iconButton, svg } from './dom.js';

const ZOOM_STEP = 1.25;
const LARGEST_SCALE = 6;
const DRAG_PX = 4;
const MARGIN = 0.02;

const TURNS = {
  0: () => '',
  90: (_, height) => `translate(${height} 0) rotate(90)`,
  180: (width, height) => `translate(${width} ${height}) rotate(180)`,
  270: (width) => `translate(0 ${width}) rotate(270)`,
};

export class PageView {
  constructor() {
    this.size = { width: 1, height: 1 };
    this.turned = 0;
    this.fitted = 'page';
    this.view = { x: 0, y: 0, scale: 1 };
    this.pane = { width: 0, height: 0 };
    this.boxes = [];
    this.pointers = new Map();
    this.isDragged = false;
    this.build();
    this.listen();
  }

  build() {
    this.image = svg('image', { preserveAspectRatio: 'none' });
    this.shapes = svg('g', { class: 'boxes' });
    this.flags = svg('g', { class: 'flags', 'aria-hidden': 'true' });
    this.sheet = svg('g', {}, this.image, this.shapes, this.flags);
    this.svg = svg('svg', { class: 'sheet', role: 'group', tabindex: '0' }, hatching(), this.sheet);
    this.missing = h('div', { class: 'no-image', hidden: true });
    this.canvas = h('div', { class: 'canvas' }, this.svg, this.missing);
    this.caption = h('figcaption', { dir: 'auto' });
    this.percent = h('output', { class: 'zoom', 'aria-label': 'Zoom' });
    this.element = h('figure', { class: 'page-view' }, this.tools(), this.canvas, this.caption);
  }

  tools() {
    return h(
      'div',
      { class: 'page-tools', role: 'group', 'aria-label': 'Page view' },
      iconButton('minus', 'Zoom out (−)', 'zoom-out'),
      this.percent,
      iconButton('plus', 'Zoom in (+)', 'zoom-in'),
      iconButton('page', 'Fit page (0)', 'fit-page', { 'aria-pressed': 'true' }),
      iconButton('width', 'Fit width', 'fit-width', { 'aria-pressed': 'false' }),
      iconButton('turn', 'Turn the view', 'turn'),
      iconButton('full', 'Full screen', 'full', { hidden: !document.fullscreenEnabled }),
      iconButton('help', 'Keys (?)', 'help'),
    );
  }

  listen() {
    new ResizeObserver(([entry]) => this.resized(entry.contentRect)).observe(this.canvas);
    this.canvas.addEventListener('wheel', (event) => this.wheeled(event), { passive: false });
    this.canvas.addEventListener('pointerdown', (event) => this.pressed(event));
    this.canvas.addEventListener('pointermove', (event) => this.moved(event));
    for (const end of ['pointerup', 'pointercancel', 'lostpointercapture']) {
      this.canvas.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
    }
  }

  // Draws a page. `reading` is the server's JSON; a page without text has no size, so its image tells it.
  show(reading, source) {
    const text = reading.page_text;
    this.boxes = [];
    this.turned = 0;
    this.caption.textContent = `${reading.file_name}, page ${reading.number}`;
    this.svg.setAttribute('aria-label', `Scan of page ${reading.number} of ${reading.file_name}`);
    this.element.classList.toggle('empty-page', !reading.has_image && !text);
    this.missing.hidden = reading.has_image;
    this.missing.textContent = 'qr'.includes(reading.state[0]) ? 'The image appears when the page is read.' : 'No image of this page.';
    if (reading.has_image) this.image.setAttribute('href', source);
    else this.image.removeAttribute('href');
    if (text) this.sized(text.width_px, text.height_px);
    else if (reading.has_image) this.measure(source);
    this.drawBoxes(text);
  }

  measure(source) {
    const probe = new Image();
    probe.addEventListener('load', () => {
      if (this.image.getAttribute('href') === source) this.sized(probe.naturalWidth, probe.naturalHeight);
    });
    probe.src = source;
  }

  sized(width, height) {
    this.size = { width, height };
    this.image.setAttribute('width', width);
    this.image.setAttribute('height', height);
    this.turn(this.turned);
  }

  drawBoxes(text) {
    const shapes = document.createDocumentFragment();
    const flags = document.createDocumentFragment();
    (text?.lines ?? []).forEach((line, at) => {
      // An engine that gives no places leaves the page as it is.
      if (!line.box) return this.boxes.push(null);
      const isToCheck = isDoubtful(line, text.check_below);
      const points = text.skew_degrees && line.quad ? line.quad : corners(line.box);
      const shape = svg('polygon', { points: points.join(' '), 'data-line': at, tabindex: '-1' });
      if (isToCheck) {
        shape.setAttribute('class', 'check');
        flags.append(flag(line.box));
      }
      shapes.append(shape);
      return this.boxes.push(shape);
    });
    for (const box of text?.figures ?? []) flags.append(svg('polygon', { class: 'figure', points: corners(box).join(' ') }));
    this.shapes.replaceChildren(shapes);
    this.flags.replaceChildren(flags);
  }

  // Zoom and place
  get turnedSize() {
    const { width, height } = this.size;
    return this.turned % 180 ? { width: height, height: width } : { width, height };
  }

  resized({ width, height }) {
    this.pane = { width, height };
    if (this.fitted) this.fit(this.fitted);
    else this.place();
  }

  fit(kind) {
    this.fitted = kind;
    const { width, height } = this.turnedSize;
    const whole = { page: Math.min(this.pane.width / width, this.pane.height / height), width: this.pane.width / width };
    this.view = { x: 0, y: 0, scale: (whole[kind] || 1) * (1 - MARGIN) };
    this.place();
  }

  turn(degrees) {
    this.turned = degrees % 360;
    this.sheet.setAttribute('transform', TURNS[this.turned](this.size.width, this.size.height));
    this.fit(this.fitted || 'page');
  }

  // A step in or out; the line that is looked at stays in sight.
  zoom(steps, line) {
    this.zoomAt(ZOOM_STEP ** steps, this.pane.width / 2, this.pane.height / 2);
    this.reveal(line);
  }

  zoomAt(factor, paneX, paneY) {
    const { x, y, scale } = this.view;
    const { width, height } = this.turnedSize;
    const smallest = Math.min(1, this.pane.width / width, this.pane.height / height) * 0.5;
    const next = Math.min(Math.max(scale * factor, smallest), LARGEST_SCALE);
    this.view = { x: x + paneX / scale - paneX / next, y: y + paneY / scale - paneY / next, scale: next };
    this.fitted = null;
    this.place();
  }

  pan(paneX, paneY) {
    this.view.x -= paneX / this.view.scale;
    this.view.y -= paneY / this.view.scale;
    this.fitted = null;
    this.place();
  }

  // Keeps the page in sight and paints once a frame, however often it is called.
  place() {
    const { width, height } = this.turnedSize;
    this.view.x = held(this.view.x, width, this.pane.width / this.view.scale);
    this.view.y = held(this.view.y, height, this.pane.height / this.view.scale);
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.paint();
    });
  }

  paint() {
    const { x, y, scale } = this.view;
    if (!this.pane.width || !this.pane.height) return;
    this.svg.setAttribute('viewBox', `${x} ${y} ${this.pane.width / scale} ${this.pane.height / scale}`);
    this.percent.textContent = `${Math.round(scale * 100)} %`;
    this.canvas.classList.toggle('zoomed', !this.fitted);
    for (const kind of ['page', 'width']) {
      this.element.querySelector(`[data-act=fit-${kind}]`).setAttribute('aria-pressed', this.fitted === kind);
    }
  }

  // Brings a line's box into sight, in the middle where it was outside. What was not painted yet is, since it measures.
  reveal(at) {
    this.paint();
    const box = this.boxes[at]?.getBoundingClientRect();
    const pane = this.canvas.getBoundingClientRect();
    if (!box || !pane.width) return;
    const isInside = box.left >= pane.left && box.right <= pane.right && box.top >= pane.top && box.bottom <= pane.bottom;
    if (isInside) return;
    this.pan(middle(pane.left, pane.right) - middle(box.left, box.right), middle(pane.top, pane.bottom) - middle(box.top, box.bottom));
  }

  // Pointer
  wheeled(event) {
    event.preventDefault();
    const pane = this.canvas.getBoundingClientRect();
    const pixels = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1);
    this.zoomAt(Math.exp(-Math.max(-240, Math.min(240, pixels)) / 500), event.clientX - pane.left, event.clientY - pane.top);
  }

  pressed(event) {
    if (event.button !== 0) return;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.isDragged = false;
  }

  moved(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return;
    const next = { x: event.clientX, y: event.clientY };
    if (this.pointers.size === 2) this.pinch(event.pointerId, last, next);
    else if (!this.drag(event.pointerId, last, next)) return;
    this.pointers.set(event.pointerId, next);
  }

  drag(id, last, next) {
    if (!this.isDragged && Math.hypot(next.x - last.x, next.y - last.y) < DRAG_PX) return false;
    // Captured only once it is a drag: else a click would go to the canvas instead of the box under it.
    if (!this.isDragged) this.canvas.setPointerCapture(id);
    this.isDragged = true;
    this.pan(next.x - last.x, next.y - last.y);
    return true;
  }

  pinch(id, last, next) {
    const other = [...this.pointers].find(([key]) => key !== id)[1];
    const pane = this.canvas.getBoundingClientRect();
    const factor = Math.hypot(next.x - other.x, next.y - other.y) / (Math.hypot(last.x - other.x, last.y - other.y) || 1);
    this.isDragged = true;
    this.zoomAt(factor, middle(next.x, other.x) - pane.left, middle(next.y, other.y) - pane.top);
  }
}

// No score is no doubt: an engine without scores marks nothing.
export const isDoubtful = ({ score }, below) => below !== null && score !== null && score < below;

const middle = (start, end) => (start + end) / 2;

const held = (start, length, seen) =>
  seen >= length ? (length - seen) / 2 : Math.min(Math.max(start, -seen * MARGIN), length - seen + seen * MARGIN);

const corners = ([x0, y0, x1, y1]) => [x0, y0, x1, y0, x1, y1, x0, y1];

// Stripes: the third sign of a line to check, beside its colour and its flag.
const hatching = () =>
  svg(
    'defs',
    {},
    svg(
      'pattern',
      { id: 'check-stripes', width: 12, height: 12, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' },
      svg('rect', { width: 12, height: 12, class: 'stripe-ground' }),
      svg('rect', { width: 4, height: 12, class: 'stripe' }),
    ),
  );

const flag = ([x0, y0, , y1]) => {
  const size = Math.max(14, Math.min(y1 - y0, 48));
  const place = { x: Math.max(0, x0 - size * 1.15), y: y0 + (y1 - y0 - size) / 2, width: size, height: size };
  const drawn = icon('flag');
  for (const [name, value] of Object.entries(place)) drawn.setAttribute(name, value);
  return drawn;
};
