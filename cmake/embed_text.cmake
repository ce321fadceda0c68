# Writes the bytes of TEXT as a list of numbers into CODE: cmake -DTEXT=... -DCODE=... -P embed_text.cmake
file(READ ${TEXT} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${CODE} "${bytes}\n")
