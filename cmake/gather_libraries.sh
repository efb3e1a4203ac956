#!/bin/sh
# Copies into FOLDER/lib/copies what the programs of FOLDER/bin and the libraries of FOLDER/lib need, but for the C
# library, the compiler's own support, and CUDA's: what lies in the folders named after it.
#
#   sh cmake/gather_libraries.sh FOLDER [NOT_FROM...]
set -eu
folder=$1
shift
rm -rf "$folder/lib/copies" # or they would be found instead of what they are copies of
mkdir "$folder/lib/copies"
find "$folder/bin" "$folder/lib" -type f \( -perm -u+x -o -name '*.so*' \) -exec ldd {} + 2>/dev/null |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | while read -r path; do
    case ${path##*/} in
        libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.* | ld-linux* | libgcc_s.so.*)
            continue ;;
        libcu*.so.*) continue ;;
    esac
    for not_from in "$folder" "$@"; do case $path in "$not_from"/*) continue 2 ;; esac done
    cp -L "$path" "$folder/lib/copies"
done
