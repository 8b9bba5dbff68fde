// Copies a field's text, and says so. Without this, or without the browser's leave, the text is there to select.
for (const button of document.querySelectorAll('[data-copies]')) {
  const field = document.getElementById(button.dataset.copies);
  button.hidden = false;
  button.addEventListener('click', async () => {
    field.select();
    let said = 'Copied.';
    try {
      await navigator.clipboard.writeText(field.value);
    } catch {
      said = document.execCommand('copy') ? said : 'Press Ctrl+C (on a Mac: Command+C) to copy it.';
    }
    document.getElementById('copied').textContent = said;
  });
}

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
