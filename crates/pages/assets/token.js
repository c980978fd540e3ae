// The token: it comes in the fragment, leaves the address at once, and is kept for the tab.

export function takeToken(way) {
  const given = /^#token=([^&]+)/.exec(location.hash);
  if (given) {
    keepToken(decodeURIComponent(given[1]));
    history.replaceState(null, "", way);
  }
  return sessionStorage.getItem("token") || "";
}

// What a person has pasted: the token, or the whole address with it.
export function keepToken(text) {
  const given = /#token=([^&\s]+)/.exec(text);
  sessionStorage.setItem("token", given ? decodeURIComponent(given[1]) : text.trim());
  return sessionStorage.getItem("token");
}
