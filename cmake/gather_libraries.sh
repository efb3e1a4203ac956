#!/bin/sh
# Copies into FOLDER/lib what the programs of FOLDER/bin and the libraries of FOLDER/lib need, but for the C library, the
# compiler's own support and what lies in the folders named after it (CUDA's).
#
#   sh cmake/gather_libraries.sh FOLDER [NOT_FROM...]
set -eu
folder=$1
shift
find "$folder/bin" "$folder/lib" -type f \( -perm -u+x -o -name '*.so*' \) -exec ldd {} + 2>/dev/null |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | while read -r path; do
    name=${path##*/}
    case $name in
        libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.* | ld-linux* | libgcc_s.so.*) continue ;;
        libcu*.so.*) continue ;;
    esac
    case $path in "$folder"/*) continue ;; esac
    skip=
    for not_from; do case $path in "$not_from"/*) skip=1 ;; esac done
    [ -n "$skip" ] || cmp -s "$path" "$folder/lib/$name" || cp -L "$path" "$folder/lib/$name"
done
