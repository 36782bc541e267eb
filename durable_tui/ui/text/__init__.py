"""Safe text: from outside data to lines of styled runs, with no control sequence left in them."""
