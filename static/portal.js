// Shows and hides passwords. The pages work without it: the buttons appear only when this runs.
for (const button of document.querySelectorAll('[data-reveals]')) {
  const input = document.getElementById(button.dataset.reveals);
  button.hidden = false;
  button.addEventListener('click', () => {
    const isShown = input.type === 'password';
    input.type = isShown ? 'text' : 'password';
    button.firstElementChild.textContent = isShown ? 'Hide' : 'Show';
    input.focus();
  });
  input.form.addEventListener('submit', () => { input.type = 'password'; });
}
