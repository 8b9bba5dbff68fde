// The keys, on '?'.
import { h } from './dom.js';

const KEYS = [
  ['J', 'next line'],
  ['K', 'line before'],
  ['Enter', 'pin the line, or let it go'],
  ['[', 'page before'],
  [']', 'next page'],
  ['N', 'next line to check, on later pages too'],
  ['C', 'copy the block'],
  ['+', 'zoom in'],
  ['−', 'zoom out'],
  ['0', 'fit the page'],
  ['Esc', 'let the line go'],
  ['?', 'this help'],
];

export const helpDialog = () => {
  const rows = KEYS.flatMap(([key, meaning]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, meaning)]);
  const close = h('form', { method: 'dialog' }, h('button', { class: 'button', autofocus: true }, 'Close'));
  return h('dialog', { class: 'confirm keys-help', 'aria-labelledby': 'keys-title' }, h('h2', { id: 'keys-title' }, 'Keys'), h('dl', {}, ...rows), close);
};
