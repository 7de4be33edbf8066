-- unmark: writes did not commit, one for each key; the last argument has the tokens.
return each(function(i)
  load(KEYS[i])
  if take(string.sub(ARGV[#ARGV], 8 * i - 7, 8 * i)) then save() end
  return 1
end)
