// The file list of the Workspace: files that are dropped, chosen, pasted or photographed, uploaded one by one as they
// come. Names of files are attackers' words: they are set with textContent only. The words come from portal/ui/words.py.
(() => {
  const portal = window.portal;
  const AT_ONCE = 2;
  const PICTURES = /^image\/(png|jpeg|webp|gif|bmp|avif)$/;
  const entries = [];
  let zone = null;
  let openForm = () => {};
  let said = {};

  const tell = (text, known = {}) => (said[text] || text).replace(/\{(\w+)\}/g, (_, key) => known[key] ?? '');
  const element = (tag, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), attributes);
    made.append(...children);
    return made;
  };
  const size = (bytes) =>
    bytes < 2 ** 20 ? `${Math.max(Math.round(bytes / 1024), 1)} KB` : `${(bytes / 2 ** 20).toFixed(1).replace('.0', '')} MB`;

  const announce = (text) => {
    const status = zone?.querySelector('[role=status]');
    if (status) status.textContent = text;
  };

  // A refusal names the file, the limit and what to do.
  const isOnItsWay = (entry) => ['waiting', 'sending', 'lost'].includes(entry.state);
  const reasonAgainst = (file) => {
    const limit = Number(zone.dataset.maxFiles);
    if (file.size === 0) return tell('is_empty', { name: file.name });
    if (file.size > Number(zone.dataset.maxBytes)) return tell('too_large', { name: file.name, limit: said.byte_limit });
    if (entries.filter((entry) => entry.state !== 'refused').length >= limit) return tell('too_many', { name: file.name, limit });
    return '';
  };

  const refuse = (entry, reason) => Object.assign(entry, { state: 'refused', reason: tell('refused', { reason }) });

  const add = (files, rename) => {
    if (!zone || !files.length) return;
    for (const file of files) {
      const entry = { file, name: rename ? rename(file) : file.name, state: 'waiting', sent: 0 };
      const reason = reasonAgainst(file);
      if (reason) refuse(entry, reason);
      else if (PICTURES.test(file.type)) entry.picture = URL.createObjectURL(file);
      entries.push(entry);
      draw(entry);
    }
    redraw();
    announce(tell('added', { count: entries.length }));
    uploadNext();
  };

  const remove = (entry) => {
    const place = entries.indexOf(entry);
    entries.splice(place, 1);
    entry.request?.abort();
    if (entry.picture) URL.revokeObjectURL(entry.picture);
    entry.row.remove();
    redraw();
    announce(tell('removed', { name: entry.name }));
    reprice();
    const next = entries[Math.min(place, entries.length - 1)];
    (next?.row.querySelector('button') || zone.querySelector('input')).focus();
    uploadNext();
  };

  const uploadNext = () => {
    const sending = entries.filter((entry) => entry.state === 'sending').length;
    for (const entry of entries.filter((entry) => entry.state === 'waiting').slice(0, AT_ONCE - sending)) upload(entry);
  };

  const upload = (entry) => {
    const request = (entry.request = new XMLHttpRequest());
    const form = new FormData();
    form.append('files', entry.file, entry.name);
    entry.state = 'sending';
    request.upload.onprogress = (event) => {
      entry.sent = event.lengthComputable ? event.loaded / event.total : 0;
      draw(entry);
    };
    request.onload = () => settle(entry, request);
    request.onerror = () => {
      entry.state = 'lost'; // sent again once the portal can be reached
      portal.lost();
      draw(entry);
    };
    request.open('POST', '/gradio_api/upload');
    request.send(form);
    draw(entry);
  };

  const settle = (entry, request) => {
    const answer = parsed(request.responseText);
    if (request.status === 401) return portal.signIn();
    // A proxy may answer 200 with a page of its own.
    const path = request.status === 200 && Array.isArray(answer) ? answer[0] : null;
    if (typeof path === 'string') Object.assign(entry, { state: 'ready', path });
    else refuse(entry, answer?.detail ? `${entry.name}: ${answer.detail} ${answer.remedy || ''}` : tell('upload_failed', { name: entry.name }));
    draw(entry);
    uploadNext();
    reprice();
  };

  // Once nothing is on its way, the portal counts the pages of what is in the list.
  const PRICE_AFTER_MS = 250;
  const PRICE_AFTER_TYPING_MS = 1000;
  let pricing = 0;
  let unpriced = null; // the form whose texts are being written
  const reprice = (afterMs = PRICE_AFTER_MS) => {
    unpriced = null;
    clearTimeout(pricing);
    pricing = setTimeout(() => {
      // A call that breaks off makes Gradio load the page anew, and the list would be lost: none while it is offline.
      if (navigator.onLine && !entries.some(isOnItsWay)) document.getElementById('price-files')?.click();
    }, afterMs);
  };

  const parsed = (text) => {
    try {
      return JSON.parse(text);
    } catch {
      return null;
    }
  };

  const stateOf = (entry) => {
    if (entry.state === 'refused') return entry.reason;
    if (entry.state === 'ready') return size(entry.file.size);
    const sent = entry.state === 'sending' ? `${said.sending} ${Math.round(entry.sent * 100)} %` : said.waiting;
    return `${size(entry.file.size)} · ${sent}`;
  };

  // One row is made once and changed in place: focus and screen readers stay where they are.
  const draw = (entry) => {
    entry.row ||= row(entry);
    entry.row.dataset.state = entry.state;
    entry.row.querySelector('small').textContent = stateOf(entry);
    entry.row.style.setProperty('--sent', entry.state === 'sending' ? entry.sent : entry.state === 'ready' ? 1 : 0);
  };

  const row = (entry) => {
    const kind = (entry.name.match(/\.(\w{1,5})$/)?.[1] || 'file').toUpperCase();
    const picture = entry.picture
      ? element('img', { src: entry.picture, alt: '', decoding: 'async' })
      : element('span', { textContent: kind });
    const button = element('button', { type: 'button', className: 'remove', textContent: '×' });
    button.setAttribute('aria-label', tell('remove', { name: entry.name }));
    button.addEventListener('click', () => remove(entry));
    return element(
      'li',
      { className: 'file' },
      element('i', { ariaHidden: 'true' }, picture),
      element('p', {}, element('b', { textContent: entry.name }), element('small')),
      button,
    );
  };

  const redraw = () => {
    const list = zone.querySelector('.files');
    for (const entry of entries) if (entry.row.parentNode !== list) list.append(entry.row);
    zone.toggleAttribute('data-filled', entries.length > 0);
  };

  const stamped = (words) => (file) => {
    const moment = new Date().toLocaleString('sv').replaceAll(':', '.');
    return tell(words, { moment, kind: file.type.split('/')[1]?.replace('jpeg', 'jpg') || 'png' });
  };

  portal.input = {
    // Called by Gradio each time that it makes the form; the list outlives it. `open` shows the form again.
    mount(holder, open) {
      zone = holder.querySelector('.drop');
      openForm = open;
      said = JSON.parse(zone.dataset.words);
      for (const input of zone.querySelectorAll('input[type=file]')) {
        input.addEventListener('change', () => {
          add([...input.files], 'camera' in input.dataset ? stamped('photo') : undefined);
          input.value = '';
        });
      }
      for (const entry of entries) draw(entry);
      redraw();
    },
    // Waits for what is on its way; gives what Gradio's file component takes.
    async uploaded() {
      while (entries.some(isOnItsWay)) await new Promise((resolve) => setTimeout(resolve, 100));
      return portal.input.ready();
    },
    // The same of what is there already.
    ready() {
      return entries
        .filter((entry) => entry.state === 'ready')
        .map(({ path, name, file }) => ({
          path,
          orig_name: name,
          size: file.size,
          mime_type: file.type,
          meta: { _type: 'gradio.FileData' },
        }));
    },
    // A choice was changed that the price depends on.
    reprice() {
      if (entries.length) reprice();
    },
    // The same of a form that texts are written in: each count opens every file anew, so it waits until it is left.
    repriceWhenLeft(id) {
      const form = document.getElementById(id);
      if (form?.querySelector('textarea:focus, input:focus:not([type=checkbox], [type=radio])')) unpriced = form;
      else portal.input.reprice();
    },
    clear() {
      for (const entry of entries.splice(0)) {
        if (entry.picture) URL.revokeObjectURL(entry.picture);
        entry.row.remove();
      }
      if (zone) redraw();
      reprice();
    },
  };

  // The choices that a price offers where not all pages fit.
  const rangeField = () => document.querySelector('#page-range :is(input, textarea)');
  document.addEventListener('click', (event) => {
    const chosen = event.target.closest?.('.price-choices button');
    if (!chosen) return;
    if ('choose' in chosen.dataset) return rangeField().focus();
    const { keep, range } = chosen.dataset;
    for (const entry of entries.filter((entry) => entry.state === 'ready').slice(Number(keep))) remove(entry);
    if (range) {
      rangeField().value = range;
      rangeField().dispatchEvent(new Event('input', { bubbles: true }));
    }
    reprice();
    document.getElementById('run')?.focus();
  });
  document.addEventListener('input', (event) => {
    if (event.target === rangeField()) reprice(PRICE_AFTER_TYPING_MS);
  });
  const leave = (place) => {
    if (unpriced && !unpriced.contains(place)) portal.input.reprice();
  };
  document.addEventListener('focusout', (event) => leave(event.relatedTarget));
  document.addEventListener('focusin', (event) => leave(event.target)); // what had the focus may have been redrawn

  // A portal that started anew does not know the uploads of before.
  window.addEventListener('portal:back', () => {
    reprice();
    for (const entry of entries) if (['ready', 'lost'].includes(entry.state)) Object.assign(entry, { state: 'waiting', sent: 0 });
    uploadNext();
  });

  const isWorkspace = () => location.pathname === '/' && zone;
  const receive = (files, rename) => {
    if (new URLSearchParams(location.search).has('job')) {
      delete document.documentElement.dataset.attached;
      history.pushState(null, '', '/');
      openForm();
    }
    add(files, rename);
  };

  document.addEventListener('paste', (event) => {
    const files = [...(event.clipboardData?.files || [])];
    if (!isWorkspace() || !files.length) return;
    event.preventDefault();
    // Browsers call every picture of the clipboard the same.
    receive(files, (file) => (/^image\.\w+$/.test(file.name) ? stamped('pasted')(file) : file.name));
  });

  let depth = 0;
  const carriesFiles = (event) => isWorkspace() && event.dataTransfer?.types.includes('Files');
  const veil = (isShown) => {
    let shown = document.querySelector('.drop-veil');
    if (isShown && !shown) document.body.append(element('div', { className: 'drop-veil' }, element('p', { textContent: said.drop_here })));
    else if (!isShown) shown?.remove();
  };
  document.addEventListener('dragenter', (event) => {
    if (carriesFiles(event) && ++depth) veil(true);
  });
  document.addEventListener('dragleave', (event) => {
    if (carriesFiles(event) && --depth <= 0) veil((depth = 0));
  });
  document.addEventListener('dragover', (event) => {
    if (carriesFiles(event)) event.preventDefault();
  });
  document.addEventListener('drop', (event) => {
    depth = 0;
    veil(false);
    if (!carriesFiles(event)) return;
    event.preventDefault();
    receive([...event.dataTransfer.files]);
  });

  // The last choices of each member, in this browser: no file, no page choice, nothing secret.
  let place = '';
  portal.choices = {
    keep(choices) {
      try {
        if (place) localStorage.setItem(place, JSON.stringify(choices));
      } catch {
        /* storage is full or forbidden: the next visit starts afresh */
      }
    },
    recall(member, present) {
      place = member ? `portal.choices.${member}` : '';
      let kept = {};
      try {
        kept = JSON.parse(localStorage.getItem(place)) || {};
      } catch {
        /* as above */
      }
      const radio = [...document.querySelectorAll('#task input')].find((input) => input.value === kept.task);
      if (radio && !radio.disabled) radio.checked = true;
      else kept.task = present.task;
      return [kept.task, kept.fields ?? present.fields, kept.language ?? present.language];
    },
  };
})();
