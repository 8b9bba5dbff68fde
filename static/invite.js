// Opens the invite whose token stands behind the '#'. The address is cleared first: the token stays in no history.
const token = location.hash.slice(1);
if (token) {
  history.replaceState(null, '', location.pathname);
  const form = document.getElementById('open-invite');
  form.elements.token.value = token;
  form.requestSubmit();
}
