#!/bin/sh
# Shows that the tests notice defects. Each row of tests/defects/table.txt plants one in a copy of the tree (a term of a
# gradient taken out, a kernel emptied, a barrier or a wait removed), builds what that changes and runs the one test
# that the row names, which must fail.
#
#   sh tests/defects.sh            all rows; some half an hour
#   sh tests/defects.sh WORD       only the rows that contain WORD
#   sh tests/defects.sh --fit      plants nothing: only that every row fits its source, and every kernel and barrier has one
#
# Ends with 0 if all were noticed, 1 if one was not, 2 if something else is wrong: a row that does not fit its source
# any more, a test that fails without a defect or does not run, a defect that does not compile.
# Needs git, CMake, Ninja and, for the emulated GPU, the headers of the CUDA toolkit.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
table=$root/tests/defects/table.txt
work=$(mktemp -d "${TMPDIR:-/tmp}/s4_defects.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
tree=$work/tree build=$work/build rows=$work/rows log=$work/log
module=$build/emulated/libs4_gpu.so
begin=$(date +%s)

give_up()
{
    [ ! -f "$log" ] || cat "$log" >&2
    echo "tests/defects.sh: $1" >&2
    exit 2
}

# ---- the table -------------------------------------------------------------------------------------------------------

only_fit=0
if [ "${1:-}" = --fit ]; then
    only_fit=1
    shift
fi

# Number of the row's line, its file and its fields, each separated by a tab.
awk -F ' +[|] +' -v word="${1:-}" '
    function wrong(text) { print "table.txt:" NR ": " text > "/dev/stderr"; bad = 1 }
    { sub(/ +$/, "") }
    /^#/ || /^$/ { next }
    /^\[.*\]$/ { file = substr($0, 2, length($0) - 2); next }
    file == "" { wrong("no [file] before the first row"); next }
    NF != 5 || /\t/ { wrong("five fields between \" | \", no tabs"); next }
    $3 !~ /^[0-9]+\/[0-9]+$/ { wrong("third field: which of how many lines, like 1/1"); next }
    $5 !~ /^(-$|[=+] .)/ { wrong("last field: -, = and a text, or + and a text"); next }
    index(file " " $0, word) { print NR "\t" file "\t" $1 "\t" $2 "\t" $3 "\t" $4 "\t" $5 }
    END { exit bad }' "$table" > "$rows" || give_up "the table is wrong"
[ -s "$rows" ] || give_up "no row contains \"${1:-}\""
tab=$(printf '\t')

# plant FILE WHICH/OF LINE EDIT: FILE with the edit, on standard output. Lines are compared without their indentation.
# In the environment, where a backslash is a backslash to awk.
plant()
{
    which=${2%/*} of=${2#*/} line=$3 edit=$4 awk '
        { text = $0; sub(/^[ \t]+/, "", text); indent = substr($0, 1, length($0) - length(text)) }
        text != ENVIRON["line"] || ++found != ENVIRON["which"] { print; next }
        ENVIRON["edit"] == "-" { next }
        { print indent substr(ENVIRON["edit"], 3) }
        ENVIRON["edit"] ~ /^[+]/ { print }
        END { exit found == ENVIRON["of"] && found >= ENVIRON["which"] ? 0 : 10 + found }' "$1"
}

# ---- the copy and its build ------------------------------------------------------------------------------------------

mkdir "$tree"
(cd "$root" && git ls-files --cached --others --exclude-standard | while IFS= read -r file; do
    [ ! -f "$file" ] || printf '%s\n' "$file"
done | tar -cf - -T -) | tar -xf - -C "$tree"

# All rows must fit before anything is built.
fits=1
while IFS=$tab read -r number file test place which line edit; do
    [ -f "$tree/$file" ] || give_up "table.txt:$number: there is no $file"
    plant "$tree/$file" "$which" "$line" "$edit" > /dev/null && continue
    echo "table.txt:$number: $file does not have ${which#*/} lines \"$line\"" >&2
    fits=0
done < "$rows"
[ $fits = 1 ] || give_up "the table does not fit the source"

# As many rows as there are kernels and barriers: a new one needs its own.
same_number()
{
    there=$(cat "$tree"/gpu/kernels/* | grep -c "$2")
    here=$(awk -F '\t' -v in_line="$3" -v edit="$4" \
        'index($6, in_line) && $7 == edit && !seen[$2, $5, $6]++ { n++ } END { print n + 0 }' "$rows")
    [ "$here" = "$there" ] || give_up "gpu/kernels has $there $1, the table has rows for $here of them"
}
if [ $# = 0 ]; then
    same_number kernels '__global__' '' '+ return;'
    same_number barriers '__syncthreads()' '__syncthreads()' -
fi

if [ $only_fit = 1 ]; then
    echo "$(wc -l < "$rows") rows fit their sources"
    exit 0
fi

executables=$(cut -f 3 "$rows" | sed 's,/.*,,; s,^,test_,' | sort -u)
cmake -S "$tree" -B "$build" -G Ninja -DS4_GPU=off -DS4_COMMAND=OFF -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_C_FLAGS='-O1 -w' -DCMAKE_CXX_FLAGS='-O1 -w' > "$log" 2>&1 || give_up "cannot configure"
grep -q 'emulated module for tests: /' "$log" || give_up "no emulated GPU: the CUDA toolkit's headers were not found"
ninja -C "$build" s4 s4_gpu_emulated $executables > "$log" 2>&1 || give_up "cannot build"

# ---- tests -----------------------------------------------------------------------------------------------------------

# run TEST PLACE: `suite/name` of test_suite; place `cpu`, or a placement and a schedule of the emulation, `split:1`.
# Status of the test program: tests/main.c.
run()
{
    case $2 in *:*) seed=${2#*:} ;; *) seed=0 ;; esac
    OMP_WAIT_POLICY=passive S4_TEST_PLACEMENT=${2%:*} S4_GPU_MODULE=$module S4_EMULATION_SEED=$seed \
        "$build/bin/test_${1%%/*}" --filter "$1" --timeout 60 > "$log" 2>&1 < /dev/null
}

cut -f 3,4 "$rows" | sort -u > "$work/tests"
while IFS=$tab read -r test place; do
    run "$test" "$place" || give_up "$test ($place) fails or does not run without any defect"
done < "$work/tests"

# ---- the defects -----------------------------------------------------------------------------------------------------

total=0 missed=0
while IFS=$tab read -r number file test place which line edit; do
    cp "$tree/$file" "$work/kept"
    plant "$work/kept" "$which" "$line" "$edit" > "$tree/$file"
    ninja -C "$build" s4 s4_gpu_emulated > "$log" 2>&1 < /dev/null ||
        give_up "table.txt:$number: $file does not compile any more"
    status=0
    run "$test" "$place" || status=$?
    cp "$work/kept" "$tree/$file"
    total=$((total + 1))
    case $status in
    0) verdict='NOT NOTICED' missed=$((missed + 1)) ;;
    1) verdict='noticed    ' ;;
    *) give_up "table.txt:$number: $test ($place) did not run: status $status" ;;
    esac
    case $edit in
    -) edit=removed ;;
    +*) edit="after ${edit#+ }" ;;
    =*) edit="now ${edit#= }" ;;
    esac
    printf '%s | %s | %s | %s | %s %s\n' "$verdict" "$file" "$line" "$edit" "$test" "$place"
done < "$rows"

echo "$((total - missed)) of $total planted defects were noticed, in $(($(date +%s) - begin)) s"
[ $missed = 0 ]
