// Opens the invite whose token stands behind the '#'. The address is cleared first: the token stays in no history.
function openInvite() {
  const token = location.hash.slice(1);
  if (!token) return;
  history.replaceState(null, '', location.pathname);
  const form = document.getElementById('open-invite');
  form.elements.token.value = token;
  form.requestSubmit();
}
addEventListener('hashchange', openInvite);  // the link was put into the address of this very page
openInvite();
