// Rows of fields as text and back. Pure.
import { counted } from './viewer/dom.js';

// Why a text is neither rows nor a JSON Schema; empty where it is one.
export const problemOf = (text) => {
  try {
    const given = JSON.parse(text);
    if (Array.isArray(given)) return given.every(isRow) ? '' : 'Each row is a name, or an object with a name.';
    return given && typeof given === 'object' ? '' : 'Rows are a list, a JSON Schema is an object.';
  } catch (error) {
    return `Not valid JSON: ${error.message}`;
  }
};

const isRow = (row) => typeof row === 'string' || typeof row?.name === 'string';

// Names with commas are a value, too.
export const parsed = (value) => {
  try {
    const given = JSON.parse(value);
    return Array.isArray(given) ? { rows: given } : given;
  } catch {
    return { rows: listed(value).map((name) => ({ name })) };
  }
};

export const filled = (rows) => rows.filter((row) => row.name);

// The same text for rows that ask for the same, in whatever order their keys were written.
export const canonical = (value) =>
  JSON.stringify(value, (_, inner) =>
    inner && typeof inner === 'object' && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([one], [other]) => (one < other ? -1 : 1)))
      : inner);

export const listing = (names) => (names.length ? `${counted(names.length, 'field')}: ${names.map(titled).join(', ')}` : 'No fields yet');

const titled = (name) => name.replaceAll('_', ' ');

export const listed = (text) => text.split(',').map((one) => one.trim()).filter(Boolean);
