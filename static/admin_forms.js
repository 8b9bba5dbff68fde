// What is typed in the forms of the Admin page, kept by form and field. A redraw changes elements by their place: where
// a form comes or goes, what was typed in one would stand in another. It goes once its form was taken, and stays where
// that was refused.
const typed = new Map();

const keyOf = (field) => JSON.stringify([field.form.dataset.action, field.form.dataset.target || '', field.name]);
const isTypedIn = (field) => field.name && field.matches('input:not([type=hidden]), select, textarea');

const preset = (field) => {
  if (!field.options) return field.defaultValue;
  return ([...field.options].find((option) => option.defaultSelected) ?? field.options[0])?.value ?? '';
};
const offers = (field, value) => !field.options || [...field.options].some((option) => option.value === value);

const settle = () => {
  for (const form of document.querySelectorAll('#admin-body form[data-action]')) {
    for (const field of [...form.elements].filter(isTypedIn)) {
      const own = typed.get(keyOf(field));
      const wanted = own !== undefined && offers(field, own) ? own : preset(field);
      if (field.value !== wanted) field.value = wanted;
    }
  }
};

const forget = (action, target) => {
  for (const key of [...typed.keys()]) {
    const [ofAction, ofTarget] = JSON.parse(key);
    if (ofAction === action && ofTarget === target) typed.delete(key);
  }
  settle();
};

export const mount = (element) => {
  const remember = ({ target: field }) => {
    if (field.form?.dataset.action && isTypedIn(field)) typed.set(keyOf(field), field.value);
  };
  for (const kind of ['input', 'change']) element.addEventListener(kind, remember);
  let taken = '';
  new MutationObserver(() => {
    settle();
    const { done, form, target } = element.querySelector('[data-done]')?.dataset ?? {};
    if (!done || done === taken) return;
    taken = done;
    forget(form, target);
  }).observe(element, { childList: true, subtree: true, characterData: true, attributes: true });
};
