// What went wrong, and the token where it is asked for: above every page of a gateway.

import { Refused, setToken } from "/feed.js";
import { clean } from "/text.js";
import { keepToken } from "/token.js";

const $ = (id) => document.getElementById(id);

export function trouble(error) {
  const refused = error instanceof Refused && error.status === 401;
  $("token-form").hidden = !refused;
  $("trouble").hidden = false;
  $("trouble").textContent = refused ? "The token of these pages is needed for this." : clean(error.message || String(error));
}

export function fine() { $("trouble").hidden = true; $("token-form").hidden = true; }

// `again()`: what is to be done with a token that was given.
export function onToken(again) {
  $("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(keepToken($("token").value));
    $("token").value = "";
    fine();
    again();
  });
}
