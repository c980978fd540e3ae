// The token: it comes in the fragment, leaves the address at once, and is kept for the tab.

export function takeToken(way) {
  const given = /^#token=([^&]+)/.exec(location.hash);
  if (given) {
    keepToken(given[0]);
    history.replaceState(null, "", way);
  }
  return sessionStorage.getItem("token") || "";
}

// What a person has pasted: the token, or the whole address with it.
export function keepToken(text) {
  const given = /#token=([^&\s]+)/.exec(text);
  sessionStorage.setItem("token", given ? decoded(given[1]) : text.trim());
  return sessionStorage.getItem("token");
}

// An address that was cut in the middle of an escape is shown to be refused, and is no fault of the page.
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}
