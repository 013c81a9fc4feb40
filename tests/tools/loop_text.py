"""Functions for a StatelessWhile, as text of HIR."""
# The condition: the loop continues while the sum of the vector %y is at least zero.
MORE = '''
function "more" {
  signature "\\n\\x04more"
  arg "y" = %y
  ret "r" = %more
  %y = _Arg() {T=f32, index=0}
  %axis = Const() {dtype=i32, value=tensor i32[1] {0}}
  %sum = Sum(%y, %axis) {T=f32, Tidx=i32, keep_dims=false}
  %zero = Const() {dtype=f32, value=tensor f32[] {0}}
  %more = GreaterEqual(%sum, %zero) {T=f32}
}
'''


def while_functions(*body):
    """The functions that StatelessWhile(…) {cond=@more{}, body=@step{}} calls.  `body` has the lines of @step that compute %next from %y."""
    step = ''.join(f'  {line}\n' for line in body)
    return (f'{MORE}function "step" {{\n  signature "\\n\\x04step"\n  arg "y" = %y\n  ret "r" = %next\n'
            f'  %y = _Arg() {{T=f32, index=0}}\n{step}}}\n')
