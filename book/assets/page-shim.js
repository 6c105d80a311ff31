/* Small repairs to the theme that every page needs. Loaded first; asks for nothing. */
"use strict";

// The theme's own search field and menus work without this file; so does all text. Nothing here may throw.
document.documentElement.classList.add("js");
