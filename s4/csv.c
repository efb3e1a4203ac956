/*
 * .csv files: a line for every moment, a column for every channel; numbers between commas, semicolons, tabs or spaces.
 * The first line may be a header, which is one without any number. The file is gone through twice: once to count lines
 * and columns, which must be the same everywhere, and once to read the numbers, so that no more memory is asked for
 * than the fields that are there need.
 */
#include <stdlib.h>
#include <string.h>

#include "s4/atomic_file.h"
#include "s4/decimal.h"
#include "s4/errors.h"
#include "s4/tensor_file.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* some spreadsheets begin a UTF-8 file with it */

/* ---- lines and fields -------------------------------------------------------------------------------------------- */

typedef struct line {
    int64_t number;          /* from 1 */
    const char *begin, *end; /* without what ends it */
    const char *next;
} line;

/* Where the character is, or `end`. */
static const char *find(const char *at, const char *end, char character)
{
    while (at < end && *at != character) at++;
    return at;
}

static line line_at(const char *at, const char *end, int64_t number)
{
    line l = {.number = number, .begin = at};
    l.end = find(at, end, '\n');
    l.next = l.end < end ? l.end + 1 : end;
    if (l.end > l.begin && l.end[-1] == '\r') l.end--;
    return l;
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    return at;
}

static int is_blank(const line *l) { return skip_blanks(l->begin, l->end) == l->end; }

/* The first of these that the line has: a decimal comma between semicolons is then a bad number, not two. */
static char find_separator(const line *l)
{
    static const char separators[] = {';', ',', '\t'};
    const char *begin = skip_blanks(l->begin, l->end), *end = l->end;
    while (end > begin && (end[-1] == ' ' || end[-1] == '\t')) end--;
    for (size_t i = 0; i < sizeof separators; i++)
        if (find(begin, end, separators[i]) < end) return separators[i];
    return ' ';
}

typedef struct field {
    const char *begin, *end; /* without blanks around it */
    const char *next;        /* where the next begins; NULL behind the last */
} field;

/* Around other separators blanks do not count; as separators, any number of them is one. */
static field field_at(const char *at, const line *l, char separator)
{
    field f = {.begin = skip_blanks(at, l->end)};
    if (separator == '\t') { /* an empty field between two tabs is one */
        f.begin = at;
        while (f.begin < l->end && *f.begin == ' ') f.begin++;
    }
    const char *stop = f.begin;
    if (separator == ' ') {
        while (stop < l->end && *stop != ' ' && *stop != '\t') stop++;
        const char *next = skip_blanks(stop, l->end);
        f.next = next < l->end ? next : NULL;
    } else {
        stop = find(f.begin, l->end, separator);
        f.next = stop < l->end ? stop + 1 : NULL;
    }
    f.end = stop;
    while (f.end > f.begin && (f.end[-1] == ' ' || f.end[-1] == '\t')) f.end--;
    return f;
}

static int read_number(const field *f, const char *end, double *value)
{
    return f->begin < f->end && s4_decimal_parse(f->begin, end, value) == f->end;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

typedef struct table {
    const char *path;
    const char *begin, *end; /* *end is 0 */
    int64_t first_number;    /* of the line at begin */
    char separator;
    int64_t rows, columns;
} table;

/* Also what is none in the end, such as 1,5 between semicolons: that is a mistake to report, not a header to skip. */
static int begins_number(const field *f, const char *end)
{
    const char *at = f->begin;
    double value;
    if (at < f->end && (*at == '+' || *at == '-')) at++;
    if (at < f->end && *at == '.') at++;
    return (at < f->end && *at >= '0' && *at <= '9') || read_number(f, end, &value);
}

/* A header is a line with fields and no number among them. */
static int is_header(const line *l, const char *end)
{
    char separator = find_separator(l);
    for (const char *at = l->begin; at;) {
        field f = field_at(at, l, separator);
        if (begins_number(&f, end)) return 0;
        at = f.next;
    }
    return !is_blank(l);
}

static int64_t count_columns(const line *l, char separator)
{
    int64_t columns = 0;
    for (const char *at = l->begin; at; columns++) at = field_at(at, l, separator).next;
    return columns;
}

/* Finds header, separator, rows and columns. */
static s4_status measure(table *t)
{
    size_t mark = strlen(BYTE_ORDER_MARK);
    if ((size_t)(t->end - t->begin) >= mark && memcmp(t->begin, BYTE_ORDER_MARK, mark) == 0) t->begin += mark;
    while (t->end > t->begin && memchr(" \t\r\n", t->end[-1], 4)) t->end--; /* blank lines at the end */
    t->first_number = 1;
    line first = line_at(t->begin, t->end, 1);
    if (t->begin < t->end && is_header(&first, t->end)) {
        t->begin = first.next;
        t->first_number = 2;
        first = line_at(t->begin, t->end, 2);
    }
    if (t->begin == t->end) return s4_fail(S4_ERROR_FORMAT, "%s: has no numbers", t->path);
    t->separator = find_separator(&first);
    t->columns = count_columns(&first, t->separator);
    for (line l = first;; l = line_at(l.next, t->end, l.number + 1)) {
        if (is_blank(&l)) return s4_fail(S4_ERROR_FORMAT, "%s: line %lld is empty", t->path, (long long)l.number);
        int64_t columns = count_columns(&l, t->separator);
        if (columns != t->columns)
            return s4_fail(S4_ERROR_FORMAT, "%s: line %lld has %lld columns, line %lld has %lld", t->path,
                           (long long)l.number, (long long)columns, (long long)t->first_number, (long long)t->columns);
        t->rows++;
        if (l.next == t->end) return S4_OK;
    }
}

static s4_status bad_number(const table *t, const line *l, int64_t column, const field *f)
{
    int length = f->end - f->begin < 40 ? (int)(f->end - f->begin) : 40;
    char text[41];
    for (int i = 0; i < length; i++) text[i] = f->begin[i] >= ' ' && f->begin[i] <= '~' ? f->begin[i] : '?';
    text[length] = 0;
    return s4_fail(S4_ERROR_FORMAT, "%s: line %lld, column %lld: \"%s\" is no number", t->path, (long long)l->number,
                   (long long)column + 1, text);
}

/* data: (columns, rows) */
static s4_status read_numbers(const table *t, double *data)
{
    line l = line_at(t->begin, t->end, t->first_number);
    for (int64_t row = 0; row < t->rows; row++) {
        const char *at = l.begin;
        for (int64_t column = 0; column < t->columns; column++) {
            field f = field_at(at, &l, t->separator);
            if (!read_number(&f, t->end, &data[column * t->rows + row])) return bad_number(t, &l, column, &f);
            at = f.next;
        }
        l = line_at(l.next, t->end, l.number + 1);
    }
    return S4_OK;
}

static s4_status read_text(const char *path, char *text, int64_t bytes, s4_array **array)
{
    table t = {.path = path, .begin = text, .end = text + bytes};
    S4_TRY(measure(&t));
    text[t.end - text] = 0; /* numbers end here */
    const int64_t shape[2] = {t.columns, t.rows};
    S4_TRY(s4_array_create(S4_F64, 2, shape, array));
    s4_status status = read_numbers(&t, (*array)->data);
    if (status) {
        s4_array_destroy(*array);
        *array = NULL;
    }
    return status;
}

s4_status s4_csv_read(const char *path, s4_array **array)
{
    s4_input_file file;
    S4_TRY(s4_input_open(path, &file));
    char *text = malloc((size_t)file.bytes + 1);
    s4_status status = text ? s4_input_read(&file, 0, text, file.bytes)
                            : s4_fail(S4_ERROR_MEMORY, "%s: no memory for %lld bytes", path, (long long)file.bytes);
    if (!status) {
        text[file.bytes] = 0;
        status = read_text(path, text, file.bytes, array);
    }
    free(text);
    s4_input_close(&file);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

#define BUFFER ((size_t)1 << 16)

static s4_status write_lines(s4_atomic_file *file, const s4_signal *signal, char *buffer)
{
    int digits = signal->dtype == S4_F64 ? 17 : 9;
    size_t used = 0;
    for (int64_t t = 0; t < signal->length; t++)
        for (int64_t c = 0; c < signal->channels; c++) {
            if (used > BUFFER - S4_DECIMAL_TEXT - 1) {
                S4_TRY(s4_atomic_write(file, buffer, (int64_t)used));
                used = 0;
            }
            used += (size_t)s4_decimal_format(s4_signal_sample(signal, c, t), digits, buffer + used);
            buffer[used++] = c + 1 < signal->channels ? ',' : '\n';
        }
    return s4_atomic_write(file, buffer, (int64_t)used);
}

s4_status s4_csv_write(const char *path, const s4_array *array)
{
    s4_signal signal;
    S4_TRY(s4_signal_shape(path, array, &signal));
    char *buffer = malloc(BUFFER);
    if (!buffer) return s4_fail(S4_ERROR_MEMORY, "%s: no memory to write it", path);
    s4_atomic_file file;
    s4_status status = s4_atomic_open(path, &file);
    if (!status) status = write_lines(&file, &signal, buffer);
    if (!status) status = s4_atomic_commit(&file);
    free(buffer);
    return status;
}
