# cmake -DTOOL=… -DOUT=… -P HalftoneManual.cmake: the manual pages of the tool and of each verb, and the
# completions for shells, as the tool prints them, in the usual folders below share/.
function(write path)
	execute_process(COMMAND ${TOOL} ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
	file(WRITE ${OUT}/${path} "${text}")
endfunction()

execute_process(COMMAND ${TOOL} help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\n  [a-z]+ " verbs "${help}")
file(REMOVE_RECURSE ${OUT})
write(man/man1/halftone.1 help --format man)
foreach(verb IN LISTS verbs)
	string(STRIP "${verb}" verb)
	write(man/man1/halftone-${verb}.1 help ${verb} --format man)
endforeach()
write(bash-completion/completions/halftone completion bash)
write(zsh/site-functions/_halftone completion zsh)
write(fish/vendor_completions.d/halftone.fish completion fish)
