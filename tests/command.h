/* The built command, as the tests of it share it. */
#ifndef S4_TEST_COMMAND_H
#define S4_TEST_COMMAND_H

/* Its path, with no GPU on whatever machine this runs; skips the test if the environment does not name it. */
const char *command(void);

#endif
