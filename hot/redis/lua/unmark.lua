-- unmark: writes did not commit, one for each key.
return each(function(key)
  load(KEYS[key])
  if take(ARGV[key]) then save() end
  return 1
end)
