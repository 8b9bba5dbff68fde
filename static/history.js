// The History page: search while typing, and the selection of jobs. File names are only ever set with textContent.
(() => {
  const selected = new Set();
  const MAX_NAMES = 4;
  const WAIT_MS = 250;
  let waiting = 0;
  let lastFocus = null;

  const rows = () => [...document.querySelectorAll('#history-list .job-entry')];
  const counted = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;

  const named = (chosen) => {
    const names = chosen.slice(0, MAX_NAMES).map((row) => row.dataset.name);
    const more = chosen.length - names.length;
    return names.join(', ') + (more > 0 ? ` and ${more} more` : '');
  };

  const search = () => {
    const field = document.getElementById('history-search');
    const words = field.value.trim();
    const button = document.getElementById('search-jobs');
    button.dataset.address = words ? `/history?q=${encodeURIComponent(words)}` : '/history';
    selected.clear();
    button.click();
  };

  const ask = (button, chosen) => {
    const isOne = chosen.length === 1;
    Object.assign(button.dataset, {
      confirm: `Delete ${isOne ? named(chosen) : counted(chosen.length, 'job')}?`,
      detail: isOne
        ? 'The files, page images and texts of this job go for good.'
        : `${named(chosen)}: their files, page images and texts go for good.`,
      yes: 'Delete',
    });
  };

  const drawBar = (chosen) => {
    const bar = document.querySelector('#history-bar .bulk');
    if (!bar) return;
    bar.hidden = chosen.length === 0;
    document.getElementById('bulk-count').textContent = `${counted(chosen.length, 'job')} selected`;
    for (const button of bar.querySelectorAll('[data-bulk]')) {
      const able = chosen.filter((row) => row.dataset.can.split(' ').includes(button.dataset.bulk));
      const isAll = able.length === chosen.length;
      button.dataset.action = button.dataset.bulk;
      button.dataset.target = able.map((row) => row.dataset.job).join(',');
      button.hidden = able.length === 0;
      if (button.hidden) button.removeAttribute('data-action');
      button.textContent = isAll ? button.dataset.words : `${button.dataset.words} (${able.length})`;
      if (button.dataset.bulk === 'delete') ask(button, able);
    }
    drawExport(chosen);
  };

  // The table of fields is one file of the jobs with fields alone, and says how many others it leaves out.
  const drawExport = (chosen) => {
    const readable = chosen.filter((row) => row.dataset.can.split(' ').includes('export'));
    const withFields = readable.filter((row) => row.dataset.task === 'fields');
    const format = document.getElementById('bulk-format');
    format.querySelector('[value=fields]').hidden = withFields.length === 0;
    if (format.value === 'fields' && withFields.length === 0) format.value = 'txt';
    const isTable = format.value === 'fields';
    const exported = isTable ? withFields : readable;
    const query = new URLSearchParams(exported.map((row) => ['job', row.dataset.job]));
    if (!isTable) query.append('format', format.value);
    const link = document.getElementById('bulk-export');
    link.href = isTable ? `/files/fields.csv?${query}` : `/files/export?${query}`;
    link.textContent = exported.length === chosen.length ? 'Export' : `Export (${exported.length})`;
    link.parentElement.hidden = exported.length === 0;
    const others = isTable ? chosen.filter((row) => row.dataset.task !== 'fields').length : 0;
    const note = document.getElementById('bulk-left-out');
    note.textContent = others ? `${counted(others, 'job')} of other tasks left out` : '';
    note.hidden = others === 0;
  };

  const draw = () => {
    const all = rows();
    const present = new Set(all.map((row) => row.dataset.job));
    for (const id of selected) if (!present.has(id)) selected.delete(id);
    for (const row of all) {
      const isChosen = selected.has(row.dataset.job);
      row.toggleAttribute('data-selected', isChosen);
      row.querySelector('.select-job').checked = isChosen;
    }
    for (const group of document.querySelectorAll('#history-list .group')) {
      const boxes = [...group.querySelectorAll('.select-job')];
      const ticked = boxes.filter((box) => box.checked).length;
      const all = group.querySelector('.select-all');
      all.checked = ticked === boxes.length;
      all.indeterminate = ticked > 0 && ticked < boxes.length;
    }
    drawBar(all.filter((row) => selected.has(row.dataset.job)));
  };

  const choose = (ids, isChosen) => {
    for (const id of ids) isChosen ? selected.add(id) : selected.delete(id);
    draw();
  };

  // The list is drawn anew as jobs go on: what had the focus in it gets it again.
  const keepFocus = () => {
    if (!lastFocus || document.activeElement !== document.body) return;
    const scope = document.querySelector(`#history-list [data-${lastFocus.kind}="${CSS.escape(lastFocus.id)}"]`);
    scope?.querySelector(lastFocus.what)?.focus({ preventScroll: true });
  };

  const noteFocus = (element) => {
    const row = element.closest('#history-list .job-entry');
    const group = element.closest('#history-list .group');
    if (!group) return (lastFocus = null);
    const kinds = ['.select-job', '.entry-title', '.entry-actions .button', '.select-all'];
    const what = kinds.find((kind) => element.matches(kind));
    if (!what) return (lastFocus = null);
    lastFocus = row ? { kind: 'job', id: row.dataset.job, what } : { kind: 'group', id: group.dataset.group, what };
  };

  document.addEventListener('change', (event) => {
    if (event.target.matches('.select-job')) choose([event.target.closest('[data-job]').dataset.job], event.target.checked);
    if (event.target.matches('.select-all')) {
      const ids = [...event.target.closest('.group').querySelectorAll('[data-job]')].map((row) => row.dataset.job);
      choose(ids, event.target.checked);
    }
    if (event.target.id === 'bulk-format') draw();
  });
  document.addEventListener('click', (event) => {
    if (event.target.id !== 'bulk-clear') return;
    selected.clear();
    draw();
    document.querySelector('#history-list .select-all')?.focus();
  });
  document.addEventListener('input', (event) => {
    if (event.target.id !== 'history-search') return;
    clearTimeout(waiting);
    waiting = setTimeout(search, WAIT_MS);
  });
  document.addEventListener('submit', (event) => {
    if (!event.target.matches('.search')) return;
    event.preventDefault();
    clearTimeout(waiting);
    search();
  });
  document.addEventListener('focusin', (event) => noteFocus(event.target));

  // On every page of the portal, since Gradio serves all of them with one head.
  let seen = null;
  const follow = () => {
    const list = document.getElementById('history-list');
    if (!list || list === seen) return;
    seen = list;
    new MutationObserver(() => {
      draw();
      keepFocus();
    }).observe(list, { childList: true, subtree: true });
    draw();
  };
  new MutationObserver(follow).observe(document.documentElement, { childList: true, subtree: true });
})();
