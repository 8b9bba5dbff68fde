// What a copy button puts on the clipboard: always from the page's data, never from what is drawn.

export const FORMS = { text: 'text', markdown: 'Markdown', tsv: 'TSV' };

const cellText = (reading, cell) => cell.map((at) => reading.page_text.lines[at].text).join(' ');

const rowsOf = (reading, block) => reading.page_text.blocks[block].rows.map((row) => row.map((cell) => cellText(reading, cell)));

// A spreadsheet runs what begins like a formula, and a scan can say anything; numbers and amounts stay as they are.
const harmless = (cell) => (/^(?:[=@]|[+-](?!\s*[\d.,(]))/.test(cell) ? `'${cell}` : cell);

const asTsv = (reading, block) =>
  rowsOf(reading, block)
    .map((row) => row.map((cell) => harmless(cell.replace(/\s+/g, ' ').trim())).join('\t'))
    .join('\n');

const asText = (reading, block) =>
  rowsOf(reading, block)
    .map((row) => row.join('\t'))
    .join('\n');

const asMarkdown = (reading, block) => reading.block_markdown[block];

const blockAs = { text: asText, markdown: asMarkdown, tsv: asTsv };

export const blockOf = (reading, line) => {
  const blocks = reading.page_text?.blocks ?? [];
  return blocks.findIndex((block) => block.rows.some((row) => row.some((cell) => cell.includes(line))));
};

// Copies what a button names ('block tsv', 'page text', 'document markdown', 'source code-curl') and gives the sentence
// that tells so. Throws where the browser refuses.
export const copied = async (what, { reading, block, job }) => {
  const [scope, form] = what.split(' ');
  const text = await wanted(scope, form, { reading, block, job });
  await window.portal.copyText(text);
  const names = { block: 'Block', page: 'Page', document: 'Whole job', translation: 'Translation' };
  return scope === 'source' ? 'Copied.' : `${names[scope]} copied as ${FORMS[form]}.`;
};

const wanted = async (scope, form, { reading, block, job }) => {
  if (scope === 'block') return blockAs[form](reading, block);
  if (scope === 'translation') return reading.page_text.translation.markdown;
  if (scope === 'page') return reading.page_text[form];
  if (scope === 'source') return document.getElementById(form).textContent;
  const format = form === 'text' ? 'txt' : form;
  const answer = await fetch(`/files/jobs/${encodeURIComponent(job.id)}/result?format=${format}`);
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.text();
};
