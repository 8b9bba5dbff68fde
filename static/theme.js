// The theme: as the system, light or dark, remembered in this browser. Runs before the first paint, so nothing flashes.
(() => {
  const root = document.documentElement;
  const ROUND = ['system', 'light', 'dark'];
  const system = matchMedia('(prefers-color-scheme: dark)');

  const remembered = () => {
    try {
      return localStorage.getItem('portal.theme');
    } catch {
      return null; // storage may be forbidden: the system's choice then
    }
  };

  const show = (choice) => {
    root.dataset.choice = ROUND.includes(choice) ? choice : 'system';
    if (root.dataset.choice === 'system') delete root.dataset.theme;
    else root.dataset.theme = root.dataset.choice;
    followGradio();
  };

  // Gradio marks its body by the system's wish alone.
  const followGradio = () => {
    const isDark = root.dataset.theme ? root.dataset.theme === 'dark' : system.matches;
    const body = document.body;
    if (body && 'gradio_config' in window && body.classList.contains('dark') !== isDark) {
      body.classList.toggle('dark', isDark);
    }
  };

  document.addEventListener('click', (event) => {
    if (!event.target.closest?.('.themes')) return;
    const next = ROUND[(ROUND.indexOf(root.dataset.choice) + 1) % ROUND.length];
    try {
      localStorage.setItem('portal.theme', next);
    } catch {
      /* it holds for this page only */
    }
    show(next);
  });
  window.addEventListener('storage', (event) => {
    if (event.key === 'portal.theme') show(event.newValue);
  });
  document.addEventListener('DOMContentLoaded', () => {
    followGradio();
    new MutationObserver(followGradio).observe(document.body, { attributeFilter: ['class'] });
  });

  show(remembered());
})();
