// Copy, confirm and address for the portal's Gradio pages. Text from outside is only ever set with textContent.
(() => {
  const portal = (window.portal = {});

  // Where our own files are: beside this one, under the same version.
  portal.files = new URL('.', document.currentScript.src).href;

  // A page that stays open outlives its session; its events are then refused, which Gradio does not show.
  const send = window.fetch.bind(window);
  window.fetch = async (...request) => {
    const answer = await send(...request);
    if (answer.status === 401 && new URL(answer.url).origin === location.origin) {
      location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
    }
    return answer;
  };

  // A job in the address is shown by the first event; until then the upload form must not flash.
  if (new URLSearchParams(location.search).has('job')) document.documentElement.dataset.attached = '';

  // Gradio gives all pages one title; the heading says more, and a job's says how far it is.
  let name = '';
  setInterval(() => {
    name ||= document.title;
    const heading = document.querySelector('h1')?.textContent;
    const meter = document.querySelector('.job-progress progress');
    const done = meter ? `${meter.value}/${meter.max} · ` : '';
    const title = heading ? `${done}${heading} · ${name}` : name;
    if (document.title !== title) document.title = title;
  }, 1000);

  portal.attach = (job) => {
    if (job) history.pushState(null, '', `/?job=${encodeURIComponent(job)}`);
  };
  window.addEventListener('popstate', () => location.reload());

  // A mark only: Gradio itself ignores clicks while an event of the button is pending. It ends by itself, since a
  // refusal of the request (a session that ended) calls nothing back.
  portal.busy = (id, isBusy) => {
    const button = document.getElementById(id);
    if (!button) return;
    button.toggleAttribute('data-busy', isBusy);
    if (isBusy) setTimeout(() => button.removeAttribute('data-busy'), 20000);
  };

  portal.confirm = ({ confirm, detail, yes }) =>
    new Promise((resolve) => {
      const dialog = document.createElement('dialog');
      dialog.className = 'confirm';
      const element = (tag, text, attributes = {}) =>
        Object.assign(document.createElement(tag), { textContent: text || '' }, attributes);
      const form = element('form', '', { method: 'dialog' });
      const buttons = element('div', '', { className: 'confirm-buttons' });
      buttons.append(
        element('button', 'Keep', { value: 'no', className: 'button', autofocus: true }),
        element('button', yes || 'Yes', { value: 'yes', className: 'button danger' }),
      );
      form.append(element('h2', confirm, { id: 'confirm-title' }), element('p', detail), buttons);
      dialog.setAttribute('aria-labelledby', 'confirm-title');
      dialog.append(form);
      document.body.append(dialog);
      dialog.addEventListener('close', () => {
        dialog.remove();
        resolve(dialog.returnValue === 'yes');
      });
      dialog.showModal();
    });

  // navigator.clipboard exists only on HTTPS and localhost; a portal inside a company is often plain HTTP.
  portal.copyText = async (text) => {
    if (navigator.clipboard && window.isSecureContext) {
      try {
        return await navigator.clipboard.writeText(text);
      } catch {
        /* permission refused: the old way may still work */
      }
    }
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'off-screen';
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand('copy');
    area.remove();
    if (!isCopied) throw new Error('copy refused');
  };

  document.addEventListener('click', async (event) => {
    const button = event.target.closest?.('[data-copy]');
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    const label = (button.dataset.label ||= button.textContent);
    try {
      await portal.copyText(source.innerText);
      button.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = 'Press Ctrl+C';
    }
    setTimeout(() => (button.textContent = label), 2000);
  });
})();
