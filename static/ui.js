// Copy, confirm and address for the portal's Gradio pages. Text from outside is only ever set with textContent.
(() => {
  const portal = (window.portal = {});
  const page = document.documentElement;

  // Where our own files are: beside this one, under the same version.
  portal.files = new URL('.', document.currentScript.src).href;

  // A page that stays open outlives its session and the portal's restarts; Gradio shows neither.
  const send = window.fetch.bind(window);
  window.fetch = async (...request) => {
    let answer;
    try {
      answer = await send(...request);
    } catch (error) {
      if (error.name === 'TypeError') portal.lost(); // what fetch calls a network that failed
      throw error;
    }
    if (new URL(answer.url).origin !== location.origin) return answer;
    if (answer.status === 401) portal.signIn();
    // A proxy in front of a portal that is away; the portal's own refusals are problem+json.
    const isOurs = answer.headers.get('content-type')?.includes('json');
    if ([502, 503, 504].includes(answer.status) && !isOurs) portal.lost();
    return answer;
  };

  portal.signIn = () => location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);

  // Says 'reconnecting…' and asks until the portal answers; then whoever waits goes on.
  portal.lost = async () => {
    if ('lost' in page.dataset) return;
    page.dataset.lost = '';
    let isBack = false;
    while (!isBack) {
      await new Promise((resolve) => setTimeout(resolve, 1500));
      isBack = await send('/readyz').then((answer) => answer.ok, () => false);
    }
    delete page.dataset.lost;
    window.dispatchEvent(new Event('portal:back'));
  };
  window.addEventListener('offline', () => portal.lost());
  // Leaving a page ends its requests, too. A page that the browser keeps for its Back button must show nothing of a
  // session that has ended since: it is hidden while it lies there, and asks the portal anew when it comes back.
  window.addEventListener('pagehide', (event) => {
    portal.lost = () => {};
    if (event.persisted) page.dataset.left = '';
  });
  window.addEventListener('pageshow', (event) => {
    if (event.persisted) location.reload();
  });

  // A job in the address is shown by the first event; until then the upload form must not flash.
  if (new URLSearchParams(location.search).has('job')) page.dataset.attached = '';

  // Gradio gives all pages one title; the heading says more, and a job's says how far it is.
  let name = '';
  setInterval(() => {
    name ||= document.title.split(' · ').pop();
    const heading = document.querySelector('h1')?.textContent;
    const meter = document.querySelector('.job-progress progress');
    const done = meter ? `${meter.value}/${meter.max} · ` : '';
    const title = heading ? `${done}${heading} · ${name}` : name;
    if (document.title !== title) document.title = title;
    announce();
  }, 1000);

  // One live region for each page, which outlives the redraws: it tells what changed, and progress not too often.
  const PAUSE_MS = 8000;
  const status = Object.assign(document.createElement('p'), { className: 'off-screen', role: 'status' });
  let told = '';
  let toldAt = 0;
  const announce = () => {
    const lost = 'lost' in page.dataset && document.querySelector('.connection')?.textContent;
    const progress = document.querySelector('.job-progress');
    const news = lost || progress?.dataset.announce || '';
    const isOver = !progress?.querySelector('progress');
    if (news === told || (!lost && !isOver && Date.now() - toldAt < PAUSE_MS)) return;
    if (!status.isConnected) document.body.append(status);
    [told, toldAt] = [news, Date.now()];
    status.textContent = news;
  };

  // What stands in the place of a part that could not be loaded.
  portal.missing = (place, words, remedy) => {
    const text = Object.assign(document.createElement('p'), { textContent: words });
    const again = Object.assign(document.createElement('button'), { type: 'button', className: 'button', textContent: remedy });
    again.addEventListener('click', () => location.reload());
    const notice = Object.assign(document.createElement('div'), { className: 'notice' });
    notice.dataset.tone = 'error';
    notice.setAttribute('role', 'alert');
    notice.append(text, again);
    place.replaceChildren(notice);
  };

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

  // Resolves to null for no, else to an object with what was chosen. `choices` is "value=label|value=label".
  portal.confirm = ({ confirm, detail, yes, no, tone, choices, choicesLabel }) =>
    new Promise((resolve) => {
      const dialog = document.createElement('dialog');
      dialog.className = 'confirm';
      const element = (tag, text, attributes = {}) =>
        Object.assign(document.createElement(tag), { textContent: text || '' }, attributes);
      const form = element('form', '', { method: 'dialog' });
      const buttons = element('div', '', { className: 'confirm-buttons' });
      buttons.append(
        element('button', no || 'Keep', { value: 'no', className: 'button', autofocus: true }),
        element('button', yes || 'Yes', { value: 'yes', className: `button ${tone || 'danger'}` }),
      );
      form.append(element('h2', confirm, { id: 'confirm-title' }), element('p', detail));
      const select = choices ? element('select') : null;
      for (const [value, label] of (choices || '').split('|').filter(Boolean).map((pair) => pair.split('='))) {
        select.append(element('option', label, { value }));
      }
      if (select) {
        const label = element('label', choicesLabel, { className: 'confirm-choice' });
        label.append(select);
        form.append(label);
      }
      form.append(buttons);
      dialog.setAttribute('aria-labelledby', 'confirm-title');
      dialog.append(form);
      document.body.append(dialog);
      dialog.addEventListener('close', () => {
        dialog.remove();
        resolve(dialog.returnValue === 'yes' ? { choice: select ? select.value : '' } : null);
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
