// The page and its translation side by side, block by block where both have as many. All text is text nodes.
import { counted, h } from './dom.js';

const tableOf = (rows, textOf, label) => {
  const drawn = rows.map((row) => h('tr', {}, ...row.map((cell) => h('td', { dir: 'auto' }, cell.map(textOf).join(' ')))));
  const table = h('table', { 'aria-label': label }, h('tbody', {}, ...drawn));
  return h('div', { class: 'table-scroll', role: 'region', tabindex: '0', 'aria-label': label }, table);
};

const blockOf = (block, textOf, label) =>
  block.kind === 'table'
    ? tableOf(block.rows, textOf, label)
    : h('div', {}, ...block.rows.map((row) => h('p', { dir: 'auto' }, row.map((cell) => cell.map(textOf).join(' ')).join(' '))));

const side = (blocks, textOf, label) => blocks.map((block, at) => blockOf(block, textOf, `${label}, table in block ${at + 1}`));

const keptOf = (parts) =>
  parts ? [h('p', { class: 'cut' }, `${counted(parts, 'part')} could not be translated and stayed as on the page.`)] : [];

// Each row holds a block of the page and the same block in the other language; without pairs there is one row.
export const translationOf = (reading) => {
  const { page_text: page, translation, language } = reading;
  const original = page.blocks.length ? side(page.blocks, (at) => page.lines[at].text, 'Original') : [h('p', {}, page.markdown)];
  const translated = side(translation.blocks, (at) => translation.lines[at], translation.name);
  const isPaired = original.length === translated.length;
  const pairs = isPaired ? original.map((block, at) => [[block], [translated[at]]]) : [[original, translated]];
  const rows = pairs.map(([own, other]) =>
    h('div', { class: 'pair' }, h('div', { class: 'own', lang: language }, ...own), h('div', { class: 'other', lang: translation.language }, ...other)),
  );
  const heads = h('div', { class: 'pair heads' }, h('h2', {}, 'Original'), h('h2', {}, translation.name));
  const copy = h('button', { type: 'button', class: 'quiet', 'data-copies': 'translation markdown' }, 'Copy translation');
  return [h('div', { class: 'result-tools' }, copy), h('article', { class: 'reading translation', id: 'page-translation' }, heads, ...rows, ...keptOf(translation.untranslated))];
};
