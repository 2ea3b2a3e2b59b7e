-- The digits of a number, for commands.
local function whole(number)
  return string.format('%.0f', number)
end
