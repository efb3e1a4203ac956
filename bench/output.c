/* JSON and human-readable numbers. */
#include "output.h"

#include <stdio.h>

#include "exit_code.h"
#include "progress.h"

/* Raw, because cJSON keeps numbers as double and prints large ones with an exponent. */
void json_integer(cJSON *object, const char *key, int64_t value)
{
    char text[FORMAT_SIZE];
    snprintf(text, sizeof text, "%lld", (long long)value);
    if (value == NOT_APPLICABLE)
        cJSON_AddNullToObject(object, key);
    else
        cJSON_AddRawToObject(object, key, text);
}

void json_shape(cJSON *object, const char *key, int rank, const int64_t *shape)
{
    cJSON *array = cJSON_AddArrayToObject(object, key);
    for (int i = 0; i < rank; i++) {
        char text[FORMAT_SIZE];
        snprintf(text, sizeof text, "%lld", (long long)shape[i]);
        cJSON_AddItemToArray(array, cJSON_CreateRaw(text));
    }
}

int json_print(cJSON *root)
{
    char *text = cJSON_Print(root);
    progress_clear();
    puts(text);
    cJSON_free(text);
    cJSON_Delete(root);
    return CODE_FINE;
}

struct unit {
    const char *name;
    double size;
};

/* The largest unit that leaves at least one; three significant digits. */
static const char *format_unit(char *text, int64_t value, const struct unit *units)
{
    if (value == NOT_APPLICABLE) {
        snprintf(text, FORMAT_SIZE, "-");
        return text;
    }
    while (units->size > 1 && (double)value < units->size) units++;
    double scaled = (double)value / units->size;
    int decimals = units->size <= 1 || scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
    snprintf(text, FORMAT_SIZE, "%.*f %s", decimals, scaled, units->name);
    return text;
}

const char *format_bytes(char *text, int64_t bytes)
{
    static const struct unit units[] = {{"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"KiB", 1024.0}, {"B", 1.0}};
    return format_unit(text, bytes, units);
}

const char *format_time(char *text, int64_t ns)
{
    static const struct unit units[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1.0}};
    return format_unit(text, ns, units);
}

const char *format_integer(char *text, int64_t value)
{
    if (value == NOT_APPLICABLE)
        snprintf(text, FORMAT_SIZE, "-");
    else
        snprintf(text, FORMAT_SIZE, "%lld", (long long)value);
    return text;
}

const char *format_shape(char *text, int rank, const int64_t *shape)
{
    size_t used = 0;
    text[used++] = '(';
    for (int i = 0; i < rank && used < FORMAT_SIZE - 1; i++) {
        int written = snprintf(text + used, FORMAT_SIZE - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
        used += written > 0 ? (size_t)written : 0;
    }
    if (used > FORMAT_SIZE - 2) used = FORMAT_SIZE - 2;
    text[used] = ')';
    text[used + 1] = 0;
    return text;
}
